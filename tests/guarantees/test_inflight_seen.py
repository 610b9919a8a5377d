"""What is told of shared consumers: events in flight, holders, waiting keys, the exact length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.inflight import (
    call,
    data,
    done,
    drain,
    end_lease,
    follow,
    insert,
    receive,
    shared,
)
from tests.guarantees.sessions import RR, refused
from tests.guarantees.stages import commit_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

BULK = "insert into pgq.event_1_0 (ev_type, ev_data) select 't', g from generate_series(1, {}) g"
LENGTH = "select pgq.queue_length('q', 's')"
STATES = "select fresh, returned, claimed, delayed, waiting, in_pieces from pgq.get_inflight('q')"


def length(session: Session) -> int:
    """Return the exact length."""
    return int(session.one(LENGTH))


def seen(session: Session, columns: str) -> Any:
    """Return columns of get_inflight."""
    (row,) = session.all(f"select {columns} from pgq.get_inflight('q', 's')")
    return row


def test_events_in_flight_are_counted_by_their_states(db: Database) -> None:
    shared(db, "a1", "a2", "a3", "b1", "c1", "d1", "e1", key="extra1")
    assert db.main.all(STATES) == [(0, 0, 0, 0, 0, 0)]
    claimed = [receive(db.main) for _ in range(4)]
    assert call(db.main, "retry", claimed[1], "1 hour") == 1
    assert call(db.main, "release", claimed[2]) == 1
    assert done(db.main, claimed[3]) == 1
    assert db.main.all(STATES) == [(1, 1, 1, 1, 2, 0)]
    assert db.main.all("select * from pgq.get_inflight('q', 'c')") == []
    assert db.main.one("select count(*) from pgq.get_inflight()") == 1
    assert seen(db.main, "order_key, per_key, limit_in_flight, rate") == ("extra1", 1, None, None)


def test_ages_are_told(db: Database) -> None:
    shared(db, "a", "b", "c")
    receive(db.main)
    db.main.run("update pgq.event_1_0 set ev_time = now() - interval '1 hour' * ev_id")
    db.main.run("update pgq.inflight set run_places = array(select ctid from pgq.event_1_0"
                " where ev_id = run_ids[1]), run_claimed = run_claimed - interval '5 minutes'"
                " where cardinality(run_ids) = 1")  # fmt: skip
    assert seen(db.main, "extract(hour from oldest), extract(minute from oldest_claim)") == (2, 5)
    drain(db.main)
    assert seen(db.main, "oldest, lag") == (None, seen(db.main, "interval '0'")[0])
    insert(db.main, "d")
    db.main.run("update pgq.front set front_moved = now() - interval '1 hour'")
    assert seen(db.main, "extract(hour from lag)") == (1,)


def test_a_broken_queue_is_told_without_an_age(db: Database) -> None:
    shared(db, "a", "b")
    receive(db.main)
    assert seen(db.main, "oldest >= '0'") == (True,)
    db.main.run("update pgq.inflight set run_places = array[tid '(9,9)'] where run_token = 0")
    assert seen(db.main, "oldest, fresh") == (None, 1)


def test_oldest_event_may_be_a_copy(db: Database) -> None:
    shared(db, "a")
    claimed = receive(db.main)
    for table in (1, 2, 0):
        follow(db)
        assert db.main.rotate() == table
    assert call(db.main, "release", claimed) == 1
    assert seen(db.main, "oldest > '0'") == (True,)


def test_suspects_and_their_crashes_are_counted(db: Database) -> None:
    shared(db, "a", "b")
    end_lease(db, receive(db.main, 2))
    assert seen(db.main, "suspects, crashes") == (0, 0)
    end_lease(db, receive(db.main, 2))
    assert len(receive(db.main, 2)) == 1
    assert seen(db.main, "suspects, crashes") == (2, 0)
    for crashes in (1, 2):
        db.main.run("update pgq.inflight set run_due = clock_timestamp() where run_token > 0")
        assert len(list(iter(lambda: receive(db.main, 2), []))) == 2
        assert seen(db.main, "crashes")[0] >= crashes


def test_pieces_are_estimated(db: Database) -> None:
    shared(db)
    db.main.run(BULK.format(5000))
    receive(db.main)
    left = seen(db.main, "in_pieces")[0]
    fresh = seen(db.main, "fresh")[0]
    assert 5000 - fresh - 1 <= left <= 5000 - fresh - 1 + 2 * 1024
    assert length(db.main) == 5000


def test_holders_are_told_with_what_they_have(db: Database) -> None:
    shared(db, *"abcdefgh")
    one, two = (db.main.one("select pgq.hold('q', 's', %s)", name) for name in ("h:1", "h:2"))
    query = """
        select name, holder, events, since < now(), lease_until > now(), oldest_claim > '0'
          from pgq.get_holders('q', 's')"""
    idle = [("h:1", one, 0, True, True, None), ("h:2", two, 0, True, True, None)]
    assert db.main.all(query) == idle
    receive(db.main, 2, holder=one)
    receive(db.main, 1, holder=one)
    receive(db.main, 4)
    assert db.main.all(query) == [
        ("h:1", one, 3, True, True, True),
        ("h:2", two, 0, True, True, None),
        (None, None, 4, None, True, True),
    ]
    assert db.main.all("select * from pgq.get_holders('q', 'c')") == []


@pytest.mark.parametrize("key", ["type", "extra1", "extra2", "extra3", "extra4"])
def test_keys_that_most_waits_for_are_named(db: Database, key: str) -> None:
    shared(db, key=key)
    for each in "aaaabbbccd":
        fields = [f"{each}!" if name == key else "other" for name in
                  ("type", "extra1", "extra2", "extra3", "extra4")]  # fmt: skip
        db.main.one("select pgq.insert_event('q', %s, 'x', %s, %s, %s, %s)", *fields)
    claimed = receive(db.main)
    query = """
        select key, waiting, first_id, first_state, first_attempts, first_due > now(),
               first_time <= now() from pgq.get_waiting_keys('q', 's', %s)"""
    first = claimed[0].id
    assert db.main.all(query, 2) == [
        ("a!", 3, first, "claimed", 1, True, True),
        ("b!", 2, first + 4, "claimable", 0, None, True),
    ]
    assert call(db.main, "retry", claimed, "1 hour") == 1
    assert db.main.all(query, 1) == [("a!", 3, first, "delayed", 1, True, True)]
    assert len(db.main.all(query, 9)) == 3
    with refused("PQ009"):
        db.main.all(query, 0)


def test_length_is_exact_for_a_shared_consumer(db: Database) -> None:
    shared(db)
    db.main.one("""select pgq.set_consumer_filter('q', 's', '{"types": ["t"]}')""")
    assert length(db.main) == 0
    late = db.open()
    late.begin()
    insert(late, "late")
    insert(db.main, *"abcd")
    db.main.one("select pgq.insert_event('q', 'other', 'x')")
    staged = stage(db.open(), "staged")
    assert length(db.main) == 4
    claimed = receive(db.main, 3)
    assert length(db.main) == 4
    late.commit()
    commit_stage(db.main, staged)
    assert length(db.main) == 6
    assert done(db.main, claimed[:1]) == 1
    assert call(db.main, "dead", claimed[1:2], "bad") == 1
    assert call(db.main, "retry", claimed[2:], "1 hour") == 1
    assert length(db.main) == 4
    follow_and_rotate(db)
    assert length(db.main) == 4
    db.main.one("select pgq.revive_dead_events('q', 's')")
    assert length(db.main) == 5


def follow_and_rotate(db: Database) -> None:
    """Let the events be in copies only."""
    held = []
    while claimed := receive(db.main):
        held.append(claimed)
    for table in (1, 2, 0):
        follow(db)
        assert db.main.rotate() == table
    for claimed in held:
        assert call(db.main, "release", claimed) == 1


def test_length_is_exact_for_a_plain_consumer(db: Database) -> None:
    db.queue(consumers=("s",))
    assert length(db.main) == 0
    insert(db.main, *"abc")
    late = db.open()
    late.begin()
    insert(late, "late")
    db.main.tick()
    insert(db.main, "d")
    assert length(db.main) == 4
    batch = db.main.next("s")
    assert batch is not None
    ids = [event.id for event in db.main.events(batch)]
    assert length(db.main) == 4
    db.main.one("select pgq.finish_part(%s, %s)", batch, ids[0])
    assert length(db.main) == 3
    db.main.one("select pgq.event_retry(%s, %s, 3600)", batch, ids[1])
    db.main.finish(batch)
    assert length(db.main) == 2
    late.commit()
    assert length(db.main) == 3


def test_length_needs_one_position(db: Database) -> None:
    db.queue(consumers=())
    db.main.one("select pgq_coop.register_subconsumer('q', 's', '1')")
    with refused("PQ020"):
        length(db.main)
    with refused("PQ020"):
        db.main.one("select pgq.queue_length('q', 's.1')")
    with refused("PQ002"):
        db.main.one("select pgq.queue_length('q', 'x')")


RANGE = """
    alter function pgq.event_table(int, int) rename to event_table_itself;
    create function pgq.event_table(i_queue_id int, i_table int default null)
    returns text language plpgsql as $$ begin
    {}
    return pgq.event_table_itself(i_queue_id, i_table); end $$"""


def test_length_does_not_count_what_a_refill_moves_meanwhile_twice(db: Database) -> None:
    shared(db, "a", "b", "c")
    reader = db.open()
    with db.held(reader, RANGE) as gate:
        counts = reader.later(LENGTH)
        gate.wait_for_arrival()
        assert data(receive(db.main)) == ["a"]
        gate.open()
        assert counts.result(timeout=30) == 3


def test_length_in_a_snapshot_is_that_of_the_snapshot(db: Database) -> None:
    shared(db, "a", "b", "c")
    reader = db.open()
    reader.begin(RR)
    drain(db.main)
    assert length(reader) == 3
    assert length(db.main) == 0
