"""Workers and receivers of one consumer: the ends of both count against an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.receivers import Leased, done, end, filled, receive
from tests.guarantees.test_worker_info import info
from tests.guarantees.workers import ENDED, Worker

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

pytestmark = pytest.mark.alone

TAKE = "select batch_id, part_size, tries, leases from pgq.take_part('q', 'c', '1', %s)"
COUNT = "update pgq.position set pos_part = 1, pos_tries = 2, pos_died = '{h:1:a,h:1:b}'"
COUNTED = """
    select pos_part, pos_tries, pos_died, pos_leases
      from pgq.current_position where pos_batch > 0 order by pos_batch
"""


def take(db: Database, run: str) -> tuple[Any, ...]:
    """Take a range as a new run, which dies with it."""
    return db.main.all(TAKE, f"host:1:{run}")[0]


def let_end(db: Database, limit: int = 10) -> list[Leased]:
    """Lease messages until their lease ends."""
    leased = receive(db.main, limit)
    end(db, leased)
    return leased


def counted(db: Database, leases: int = 1, limit: int = 10) -> int:
    """Let a worker have a range against whose first event two runs and these leases count."""
    filled(db, "abc")
    Worker(db.main, "1", None)
    for _ in range(leases):
        let_end(db, limit)
    batch: int = take(db, "x")[0]
    db.main.connection.execute(f"{COUNT} where pos_batch = %s".encode(), [batch])
    return batch


def test_each_kind_goes_on_with_the_count_of_the_other(db: Database) -> None:
    filled(db, "abc")
    Worker(db.main, "1", None)
    found = []
    for run in range(5):
        found += [take(db, str(run))[1:], [each.attempt for each in let_end(db)]]
    assert found == [
        *((None, None, None), [1, 1, 1]),
        *((1000, None, 1), [2, 2, 2]),
        *((30, None, 2), [3, 3, 3]),
        *((1, None, 3), [5, 4, 4]),  # from here on each end counts against the first event
        *((1, 1, 4), [7, 5, 5]),
    ]


def test_attempt_of_a_worker_counts_both_kinds(db: Database) -> None:
    filled(db, "abc")
    Worker(db.main, "1", None)
    for attempt in (2, 4, 6, 8, 10):
        let_end(db)
        take(db, str(attempt))
        assert info(db, "1")["attempt"] == attempt
    let_end(db)
    assert info(db, "receive-1")["attempt"] == 1 + 2 + 5


def test_events_after_the_leased_ones_have_only_the_leases_that_had_them(db: Database) -> None:
    batch = counted(db)
    assert db.main.one(f"{ENDED} returning 1", batch) == 1
    leased = receive(db.main, 2)
    assert [each.attempt for each in leased] == [1 + 1 + 3, 1 + 1]
    died = ["h:1:a", "h:1:b", "host:1:x"]
    assert db.main.all(COUNTED) == [(1, 3, died, 1), (1, None, None, 1)]


def test_message_that_is_done_takes_along_what_counted_against_it(db: Database) -> None:
    batch = counted(db)
    assert db.main.one(f"{ENDED} returning 1", batch) == 1
    first, second, _ = receive(db.main)
    died = ["h:1:a", "h:1:b", "host:1:x"]
    assert done(db.main, second) == 1
    assert db.main.all(COUNTED) == [(1, 3, died, 1)]
    assert done(db.main, first) == 1
    assert db.main.all(COUNTED) == [(1, None, None, 1)]


def test_event_that_a_worker_finishes_takes_along_what_counted_against_it(db: Database) -> None:
    batch = counted(db, leases=2)
    first, second, _ = db.main.events(batch)
    assert db.main.one("select pgq.finish_part(%s, null, array[%s])", batch, second.id) == 1
    assert db.main.all(COUNTED) == [(1, 2, ["h:1:a", "h:1:b"], 2)]
    assert db.main.one("select pgq.finish_part(%s, %s)", batch, first.id) == 1
    assert db.main.all(COUNTED) == [(1, None, None, None)]


def test_run_that_lives_takes_its_end_back_from_a_lease(db: Database) -> None:
    batch = counted(db)
    assert db.main.one(f"{ENDED} returning 1", batch) == 1
    receive(db.main)
    assert take(db, "x") == (None, None, None, None)
    assert db.main.all(COUNTED) == [(1, 2, ["h:1:a", "h:1:b"], 1)]


def test_range_that_a_worker_released_counts_nothing_more(db: Database) -> None:
    counted(db)
    assert db.main.one("select pgq.end_run('q', 'c.1', 'host:1:x')") == 1
    assert [each.attempt for each in receive(db.main)] == [1 + 1 + 2, 1 + 1, 1 + 1]


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.begin_run('q', 'c.1', 'next')",
        "select pgq.widen_run('q', 'c.1', 'host:1:x')",
        "select pgq.end_run('q', 'c.1', 'host:1:x')",
        "select pgq.set_consumer_filter('q', 'c', '{\"types\": [\"x\"]}')",
        "select pgq.compact_positions()",
        "select pgq.repair_queue('q')",
    ],
)
def test_ended_leases_stay_counted_whatever_is_called(db: Database, call: str) -> None:
    counted(db)
    db.main.all(call)
    ((_, _, _, leases),) = db.main.all(COUNTED)
    assert leases == 1
