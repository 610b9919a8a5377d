"""Limits of shared consumers: of a key, of all claims, of a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.inflight import (
    SOON,
    call,
    data,
    done,
    drain,
    end_lease,
    insert,
    receive,
    shared,
)
from tests.support import gates

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LIMITS = "select pgq.set_consumer_limits('q', 's', %s, %s, %s)"
SWEEP = "update pgq.front set front_swept = '-infinity', front_looked = '-infinity'"
LATER = "update pgq.claim_rate set rate_time = rate_time - interval '1 second' * {}"
CANCEL = "select state from pgq.cancel_event('q', array[%s::bigint]) where consumer_name = 's'"
WAITING = "select count(*) from pgq.inflight where run_token = -2"


def limited(
    db: Database,
    *events: str,
    key: str | None = None,
    per_key: int = 1,
    limit: int | None = None,
    rate: float | None = None,
) -> None:
    """Make the queue with a consumer that has limits, and these events."""
    shared(db, key=key)
    db.main.one(LIMITS, per_key, limit, rate)
    insert(db.main, *events)


def test_so_many_events_of_a_key_are_claimed(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(6)), "b0", key="extra1", per_key=2)
    claimed = [receive(db.main) for _ in range(4)]
    assert [data(each) for each in claimed] == [["a0"], ["a1"], ["b0"], []]
    assert done(db.main, claimed[1]) == 1
    assert data(receive(db.main)) == ["a2"]
    assert receive(db.main) == []
    assert drain(db.main) == []
    assert done(db.main, claimed[0]) == 1
    assert data(receive(db.main, 10)) == ["a3"]


@pytest.mark.parametrize("limit", [1, 10, 100])
def test_lists_have_so_many_events_of_a_key(db: Database, limit: int) -> None:
    limited(db, *(f"{key}{n}" for n in range(50) for key in "abc"), key="extra1", per_key=3)
    found: list[str] = []
    while claimed := receive(db.main, limit):
        if limit == 100:
            assert len(claimed) in (9, 6)
        found += data(claimed)
        assert max(sum(each[0] == key for each in data(claimed)) for key in "abc") <= 3
        assert done(db.main, claimed) == len(claimed)
    assert sorted(found) == sorted(f"{key}{n}" for n in range(50) for key in "abc")


def test_slot_is_given_on_by_each_end(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(9)), key="extra1", per_key=2)
    one, two = receive(db.main), receive(db.main)
    assert call(db.main, "dead", one, "bad") == 1
    three = receive(db.main)
    assert data(three) == ["a2"]
    assert call(db.main, "retry", three, "1 hour", False) == 1
    four = receive(db.main)
    assert data(four) == ["a3"]
    assert call(db.main, "release", four) == 1
    four = receive(db.main)
    assert [(each.data, each.attempts) for each in four] == [("a3", 1)]
    assert call(db.main, "retry", four, "0") == 1
    assert data(receive(db.main)) == ["a3"]
    assert receive(db.main) == []
    assert done(db.main, two) == 1
    assert data(receive(db.main)) == ["a4"]
    assert receive(db.main) == []


def test_delayed_event_waits_for_a_slot_when_it_is_due(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(4)), key="extra1", per_key=2)
    one = receive(db.main)
    assert call(db.main, "retry", one, "1 hour") == 1
    two, three = receive(db.main), receive(db.main)
    assert sorted(data(two + three)) == ["a1", "a2"]
    db.main.run(SOON)
    db.main.run(SWEEP)
    assert receive(db.main) == []
    assert done(db.main, two) == 1
    assert data(receive(db.main)) == ["a0"]
    assert receive(db.main) == []
    assert done(db.main, three) == 1
    assert data(receive(db.main)) == ["a3"]


def test_delayed_event_takes_a_free_slot_when_it_is_due(db: Database) -> None:
    limited(db, "a0", "a1", key="extra1", per_key=2)
    assert call(db.main, "retry", receive(db.main), "1 hour") == 1
    one = receive(db.main)
    db.main.run(SOON)
    assert data(receive(db.main)) == ["a0"]
    insert(db.main, "a2")
    assert receive(db.main) == []
    assert done(db.main, one) == 1
    assert data(receive(db.main)) == ["a2"]


def test_claim_that_ended_keeps_its_slot(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(4)), key="extra1", per_key=2)
    one, two = receive(db.main), receive(db.main)
    end_lease(db, two)
    again = receive(db.main)
    assert [(each.data, each.attempts) for each in again] == [("a1", 2)]
    assert receive(db.main) == []
    assert done(db.main, again) + done(db.main, one) == 2
    assert [data(receive(db.main)) for _ in range(3)] == [["a2"], ["a3"], []]


def test_slots_of_ends_at_the_same_time_are_all_given_on(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(9)), key="extra1", per_key=2)
    one, two = receive(db.main), receive(db.main)
    other = db.open()
    other.begin()
    assert done(other, one) == 1
    assert done(db.main, two) == 1  # passes over the run that the other lets go on
    assert data(receive(db.main)) == ["a3"]
    assert receive(db.main) == []
    other.commit()
    assert data(receive(db.main)) == ["a2"]
    assert receive(db.main) == []


def test_end_waits_for_a_refill_and_sees_what_waits(db: Database) -> None:
    limited(db, "a0", "a1", key="extra1", per_key=2)
    one = receive(db.main), receive(db.main)
    refill, handler = db.open(), db.open()
    refill.begin()
    insert(db.main, "a2")
    assert receive(refill) == []
    ends = handler.later("select pgq.done('q', 's', %s)", one[0][0].token)
    assert gates.wait_until_blocked(db.main.connection, handler.pid) == [refill.pid]
    refill.commit()
    assert ends.result(timeout=30) == 1
    assert data(receive(db.main)) == ["a2"]


def test_slot_that_was_lost_is_filled_by_a_sweep(db: Database) -> None:
    limited(db, "a0", "a1", key="extra1", per_key=2)
    one, two = receive(db.main), receive(db.main)
    handler = db.open()
    handler.begin()
    assert done(handler, one) == done(handler, two) == 1
    insert(db.main, "a2", "a3", "a4")
    assert receive(db.main) == []
    handler.commit()
    db.main.run(SWEEP)
    assert [data(receive(db.main)) for _ in range(3)] == [["a2"], ["a3"], []]


def test_cancelled_events_give_their_slots_on(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(5)), key="extra1", per_key=2)
    first = receive(db.main)
    ids = [first[0].id + number for number in range(5)]
    assert db.main.one(CANCEL, ids[1]) == "cancelled"
    assert db.main.one(CANCEL, ids[2]) == "cancelled"
    assert [data(receive(db.main)) for _ in range(2)] == [["a3"], []]


def test_limit_of_a_key_changes_while_events_are_in_flight(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(9)), key="extra1", per_key=3)
    claimed = [receive(db.main) for _ in range(3)]
    assert db.main.one(LIMITS, 2, None, None) == 1
    assert done(db.main, claimed[2]) == 1
    assert receive(db.main) == []
    assert done(db.main, claimed[1]) == 1
    assert data(receive(db.main)) == ["a3"]
    assert receive(db.main) == []
    assert db.main.one(LIMITS, 4, None, None) == 1
    db.main.run(SWEEP)
    assert [data(receive(db.main)) for _ in range(3)] == [["a4"], ["a5"], []]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_nothing_is_lost_when_keys_get_or_lose_slots(db: Database, before: int, after: int) -> None:
    limited(db, *(f"a{n}" for n in range(70)), "b0", "b1", key="extra1", per_key=before)
    claimed = [receive(db.main, 2), receive(db.main, 1)]
    found = [each for some in claimed for each in data(some)]
    assert db.main.one(LIMITS, after, None, None) == 1
    insert(db.main, *(f"a{n}" for n in range(70, 80)), "b2", "c0")
    found += drain(db.main, 1)
    for some in claimed:
        assert done(db.main, some) == len(some)
    while db.main.one("select count(*) from pgq.inflight"):
        found += drain(db.main, 3)
        db.main.run(SWEEP)
    assert sorted(found) == sorted([*(f"a{n}" for n in range(80)), "b0", "b1", "b2", "c0"])
    insert(db.main, "d0", "d1", "d2", "d3", "d4")
    assert len(list(iter(lambda: receive(db.main), []))) == after


def test_keys_that_lose_their_slots_have_an_order(db: Database) -> None:
    limited(db, "a0", key="extra1", per_key=3)
    first = receive(db.main)
    assert db.main.one(LIMITS, 1, None, None) == 1
    insert(db.main, "a1", "a2")
    assert receive(db.main) == []
    assert done(db.main, first) == 1
    assert data(receive(db.main)) == ["a1"]
    assert receive(db.main) == []


def test_nothing_is_read_while_the_limit_is_reached(db: Database) -> None:
    limited(db, "a", limit=1)
    receive(db.main)
    insert(db.main, "b")
    assert receive(db.main) == []
    assert db.main.one("select count(*) from pgq.inflight") == 1


def test_so_many_events_are_claimed_by_all(db: Database) -> None:
    limited(db, *"abcdefgh", limit=3)
    other = db.open()
    one = receive(db.main, 2)
    two = receive(other, 2)
    assert data(one + two) == ["a", "b", "c"]
    assert receive(other) == []
    assert done(db.main, one[:1]) == 1
    assert data(receive(other, 10)) == ["d"]
    assert done(db.main, one[1:]) + done(other, two) == 2
    assert data(receive(other, 10)) == ["e", "f"]
    assert db.main.one(LIMITS, 1, None, None) == 1
    assert data(receive(other, 10)) == ["g", "h"]


def test_claims_at_the_same_time_keep_the_limit(db: Database) -> None:
    limited(db, *"abcdefgh", limit=3)
    receive(db.main)
    assert db.behind(receive, "select count(*) from pgq.receive('q', 's', 10)") == 1
    assert receive(db.main) == []


def test_claim_that_is_rolled_back_does_not_count(db: Database) -> None:
    limited(db, *"abcdefgh", limit=3)
    receive(db.main)
    count = "select count(*) from pgq.receive('q', 's', 10)"
    assert db.behind(receive, count, end="rollback") == 2


def test_claims_of_the_dead_do_not_use_up_the_limit(db: Database) -> None:
    limited(db, "a", "b", limit=1)
    end_lease(db, receive(db.main))
    assert [(each.data, each.attempts) for each in receive(db.main)] == [("a", 2)]


def test_consumer_without_limits_locks_nothing(db: Database) -> None:
    shared(db, "a", "b")
    receive(db.main)
    one = db.open()
    one.begin()
    receive(one)
    held = "select count(*) from pg_locks where locktype = 'advisory' and classid = 7366521"
    assert db.main.one(held) == 0
    db.main.one(LIMITS, 1, 5, None)
    one.rollback()
    one.begin()
    receive(one)
    assert db.main.one(held) == 1


def test_so_many_events_are_claimed_in_a_second(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(30)), rate=4)
    other = db.open()
    claimed = receive(db.main, 3)
    assert len(claimed) == 3
    assert done(db.main, claimed) == 3
    assert len(receive(other, 3)) == 1
    assert receive(other, 3) == []
    db.main.run(LATER.format(0.5))
    assert len(receive(other, 3)) == 2
    db.main.run(LATER.format(0.25))
    assert len(receive(db.main)) == 1
    assert receive(db.main) == []
    db.main.run(LATER.format(100))
    assert sum(map(len, iter(lambda: receive(db.main, 100), []))) == 4  # a second's worth
    db.main.run(LATER.format(-100))  # the clock was stepped back
    assert sum(map(len, iter(lambda: receive(db.main, 100), []))) == 4


def test_slow_rate_lets_one_event_through_at_once(db: Database) -> None:
    limited(db, "a", "b", rate=0.1)
    assert data(receive(db.main, 10)) == ["a"]
    assert receive(db.main) == []
    db.main.run(LATER.format(9))
    assert receive(db.main) == []
    db.main.run(LATER.format(1))
    assert data(receive(db.main)) == ["b"]


def test_rates_leave_few_rows(db: Database) -> None:
    limited(db, *(f"a{number}" for number in range(60)), rate=1e6)
    assert len(drain(db.main, 1)) == 60
    assert db.main.one("select count(*) from pgq.claim_rate") == 50
    db.main.one("select pgq.unregister_consumer('q', 's')")
    assert db.main.one("select count(*) from pgq.claim_rate") == 0


def test_limits_work_together(db: Database) -> None:
    limited(db, "a0", "a1", "a2", "b0", "b1", "c0", key="extra1", per_key=2, limit=4, rate=3)
    assert data(receive(db.main, 10)) == ["a0", "a1", "b0"]
    db.main.run(LATER.format(9))
    assert data(receive(db.main, 10)) == ["b1"]
    assert receive(db.main, 10) == []
