"""The doctor on messages that programs receive, and do not finish."""

from __future__ import annotations

import pgqpy
from tests.cli.support import Examine


def test_messages_that_are_leased_again_and_again_are_reported(
    examine: Examine, client: pgqpy.Client
) -> None:
    """A program that receives them is restarted, and ends before done() each time."""
    client.create_queue("orders")
    client.receive("orders", "mails", wait=0)
    client.insert_event("orders", "type", "one")
    client.tick_queue("orders")
    for _ in range(6):
        assert "worker" not in examine()[1]
        (message,) = client.receive("orders", "mails", wait=0)
        client.connection.execute("update pgq.position set pos_until = now() where pos_batch > 0")
    code, worst = examine()
    assert (code, worst["worker"][0]) == (0, "warn")
    assert "1 message(s) of consumer mails of queue orders were received 6" in worst["worker"][1]
    message.done()
    assert "worker" not in examine()[1]
