"""A run of a consumer with lanes looks at its queue while another session repairs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.lanes import insert, runs
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

OLD = "update pgq.tick set tick_time = tick_time - interval '1 hour'"  # a look passes old ticks


@pytest.mark.parametrize("looked", [False, True])
def test_look_that_waits_for_a_repair_skips_no_event(db: Database, looked: bool) -> None:
    (run,) = runs(db, 1)
    if looked:  # its session does not check the queue again
        insert(db.main, 1)
        db.main.tick()
        run.drain()
    events = insert(db.main, 2)
    db.main.tick()
    db.main.run(OLD)
    db.main.begin()
    db.main.one("select pgq.repair_queue('q')")
    look = run.take_later()
    wait_until_blocked(db.main.connection, run.session.pid)
    db.main.commit()
    found = run.events(batch := look.result(60))
    assert batch is None or run.finish(batch) == 1
    assert sorted(found + run.drain()) == sorted(events)
