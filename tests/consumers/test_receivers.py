"""Receivers of messages beside the workers of the same consumer."""

from __future__ import annotations

import pytest

from pgqpy import BatchLost
from tests.consumers.harness import NOTE, QUEUE
from tests.support.gates import shut_gate
from tests.support.waiting import eventually

END = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch = %s"


def test_receivers_and_workers_share_events_and_take_over_from_each_other(
    queue, make, effects, connect, connection, client
):
    def handler(event):
        with connect() as other:
            other.execute(gate.wait_sql)
            other.execute(NOTE, [event.data])

    with shut_gate(connect()) as gate:
        running = make.start(handler, shared=True)
        queue.insert("a")
        gate.wait_for_arrival()
        queue.insert("b")
        queue.insert("c")
        b, c = client.receive(QUEUE, "billing", wait=0)
        c.done()
        assert client.receive(QUEUE, "billing", wait=0) == []
        connection.execute(END, [b.batch_id])
    eventually(lambda: effects() == ["a", "b"])
    with pytest.raises(BatchLost):
        b.done()
    running.stop()
    queue.insert("d")
    (d,) = client.receive(QUEUE, "billing", wait=0)
    d.done()
    assert effects() == ["a", "b"]
