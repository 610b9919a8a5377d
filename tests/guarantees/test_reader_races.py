"""A reader of ticks, as the archive is, beside seek, detach, rotation and retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.seek import PINS, SEEK, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import DETACHED, MAINT, REATTACH, stall
from tests.guarantees.test_retention import SET, later
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
CALLS = pytest.mark.parametrize("call", ["pin_range", "advance_subscription"])
ADVANCE = "select pgq.advance_subscription('q', 'c', %s, %s)"


@CALLS
@ENDS
def test_seek_that_waited_for_a_reader_of_ticks_is_refused(
    db: Database, call: str, end: str
) -> None:
    db.queue()
    first, last = ticked(db.main, "a")
    reader, seeker = db.open(), db.open()
    reader.begin()
    assert reader.one(f"select pgq.{call}('q', 'c', %s, %s)", first, last) == 1
    waits = seeker.later(SEEK, first, False)
    assert wait_until_blocked(db.main.connection, seeker.pid) == [reader.pid]
    reader.run(end)
    if end == "rollback":
        assert waits.result(timeout=30) == first
        assert db.main.drain() == ["a"]
    else:
        with refused("PQ017"):
            waits.result(timeout=30)


@CALLS
@ENDS
def test_reader_of_ticks_that_waited_for_a_seek_finds_the_consumer_elsewhere(
    db: Database, call: str, end: str
) -> None:
    db.queue()
    first, middle, last = ticked(db.main, "a", "b")
    seeker, reader = db.open(), db.open()
    seeker.begin()
    assert seeker.one(SEEK, last, False) == last
    waits = reader.later(f"select pgq.{call}('q', 'c', %s, %s)", first, middle)
    assert wait_until_blocked(db.main.connection, reader.pid) == [seeker.pid]
    seeker.run(end)
    if end == "rollback":
        assert waits.result(timeout=30) == 1
    else:
        with refused("PQ017"):
            waits.result(timeout=30)


@CALLS
@ENDS
def test_reader_of_ticks_that_waited_for_a_detach_is_refused(
    db: Database, call: str, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    first, last = db.main.all("select min(tick_id), max(tick_id) from pgq.tick")[0]
    ticker, reader = db.open(), db.open()
    ticker.begin()
    ticker.one(MAINT)
    waits = reader.later(f"select pgq.{call}('q', 'c', %s, %s)", first, last)
    assert wait_until_blocked(db.main.connection, reader.pid) == [ticker.pid]
    ticker.run(end)
    if end == "rollback":
        assert waits.result(timeout=30) == 1
    else:
        with refused("PQ024"):
            waits.result(timeout=30)
        assert db.main.one(REATTACH, False) == 1
        assert db.main.one(PINS, first, last) == 1, "it goes on where it was"


@ENDS
def test_rotation_and_the_end_of_a_retention_leave_a_reader_of_ticks_its_range(
    db: Database, end: str
) -> None:
    db.queue(retention="1 day")
    first, last = ticked(db.main, "a")
    later(db, "13 hours")
    assert db.main.rotate() == 1
    ticked(db.main, "b")
    later(db, "13 hours")
    assert db.main.rotate() == 2
    assert db.main.one(PINS, first, last) == 1
    reader = db.open()
    reader.begin()
    assert reader.one(ADVANCE, first, last) == 1
    assert db.main.one(SET, "") == 1, "nobody waits"
    assert db.main.rotate() == 2
    reader.run(end)
    count = "select count(*) from pgq.get_tick_events('q', %s, %s)"
    assert db.main.rotate() == (0 if end == "commit" else 2)
    if end == "commit":
        with refused("PQ016"):
            db.main.one(count, first, last)
    else:
        assert db.main.one(count, first, last) == 1
        assert db.main.one(ADVANCE, first, last) == 1
    assert db.main.one(DETACHED) == 0
