"""Receivers of messages beside the workers of the same consumer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgqpy import BatchLost
from tests.consumers.harness import NOTE, QUEUE
from tests.support.gates import shut_gate
from tests.support.waiting import eventually

BOTH_KINDS = str(Path(__file__).with_name("both_kinds.py"))
NEVER = 1000  # attempts
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


@pytest.mark.parametrize(
    ("order", "max_attempts", "most", "died", "reason"),
    [
        ("worker,receiver", 5, NEVER, [4, 4], "died 1 times .*, and 4 leases"),
        ("receiver,worker", NEVER, 5, [4, 4], "gave up"),
        ("worker,receiver,worker", 7, 5, [5, 3], "died 2 times .*, and 3 leases"),
    ],
)
def test_event_that_kills_both_kinds_is_given_up_by_their_common_count(
    queue, client, spawn, dsn, effects, order, max_attempts, most, died, reason
):
    others = [f"good {number}" for number in range(8)]
    queue.insert(*others[:3], "killer", *others[3:])
    process = spawn(BOTH_KINDS, dsn, order, str(max_attempts), str(most))
    assert process.wait(120) == 0
    (line,) = (line for line in process.output().splitlines() if line.startswith("died: "))
    assert [line.split().count(kind) for kind in ("worker", "receiver")] == died
    (dead,) = client.get_dead_events(QUEUE, "billing")
    assert dead.ev_data == "killer"
    assert re.search(reason, dead.dead_reason)
    assert set(effects()) == set(others)
