"""Events with a key: one committed event a key, whoever inserts it and whatever overlaps."""

from __future__ import annotations

import pytest

from tests.guarantees.dedup import CLEAN, EXPIRE, ONCE, keys, once, read
from tests.guarantees.sessions import ISOLATIONS, RC, RR, SERIALIZABLE, Database, refused
from tests.support.gates import shut_gate, wait_until_blocked
from tests.support.waiting import eventually

WINDOW = "select pgq.insert_event_once('q', 'k', %s::interval, 't', %s)::text"


def test_repeated_call_returns_the_first_event_and_inserts_nothing(db: Database) -> None:
    db.queue()
    first, is_new = once(db.main, "a")
    assert is_new
    assert once(db.main, "b") == (first, False)
    other, is_new = once(db.main, "c", "l")
    assert (other, is_new) == (first + 1, True), "a key costs one id, and a repeated call none"
    assert db.main.deliver() == ["a", "c"]
    assert once(db.main, "d") == (first, False), "the key outlives the batch"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_of_many_calls_at_once_one_inserts(db: Database, isolation: str) -> None:
    db.queue()
    sessions = [db.open() for _ in range(6)]
    for session in sessions:
        session.run(f"set default_transaction_isolation = '{isolation}'")
    with shut_gate(db.main.connection) as gate:
        calls = [
            session.later(f"{ONCE} from ({gate.wait_sql}) waited", "k", str(number))
            for number, session in enumerate(sessions)
        ]
        eventually(lambda: len(gate.waiting()) == len(sessions))
        gate.open()
        errors = [call.exception(30) for call in calls]
    assert {getattr(error, "sqlstate", None) for error in errors} <= {None, "40001"}
    if isolation == RC:
        assert errors == [None] * len(errors)
    found = [read(call.result()) for call, error in zip(calls, errors, strict=True) if not error]
    assert len({ev_id for ev_id, _ in found}) == 1
    assert sum(is_new for _, is_new in found) == 1
    assert len(db.main.deliver()) == 1


@pytest.mark.parametrize(
    ("end", "is_new"),
    [
        ("commit", False),
        ("rollback", True),
        ("rollback to s", True),
        ("prepare transaction 'p'; commit prepared 'p'", False),
        ("prepare transaction 'p'; rollback prepared 'p'", True),
    ],
)
def test_second_call_waits_for_the_first_one_and_goes_by_its_end(
    db: Database, end: str, is_new: bool
) -> None:
    db.queue()
    first, second = db.open(), db.open()
    first.begin()
    first.run("savepoint s")
    ev_id, _ = once(first, "first")
    later = second.later(ONCE, "k", "second")
    assert wait_until_blocked(db.main.connection, second.pid) == [first.pid]
    prepare, _, rest = end.rpartition("; ")
    if prepare:
        first.run(prepare)
        assert wait_until_blocked(db.main.connection, second.pid) == [0], "a prepared transaction"
    first.run(rest)
    found = read(later.result(30))
    assert (found[1], found[0] == ev_id) == (is_new, not is_new)
    if rest == "rollback to s":
        first.commit()
    assert db.main.deliver() == ["second" if is_new else "first"]


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
@pytest.mark.parametrize("expired", [True, False], ids=["expired", "new"])
def test_old_snapshot_that_misses_the_key_fails_with_40001(
    db: Database, isolation: str, expired: bool
) -> None:
    db.queue()
    if expired:
        once(db.main, "old")
        db.main.run(EXPIRE)
    old = db.open()
    old.begin(isolation)
    ev_id, _ = once(db.main, "a")
    with refused("40001"):
        once(old, "b")
    old.rollback()
    old.begin(isolation)
    assert once(old, "b") == (ev_id, False)
    old.commit()


def test_key_is_free_when_its_time_is_over_and_one_call_takes_it(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    db.main.run(EXPIRE)
    assert not read(db.behind(lambda first: once(first, "b"), ONCE, "k", "c"))[1]
    db.main.run(EXPIRE)
    assert read(db.behind(lambda first: once(first, "d"), ONCE, "k", "e", end="rollback"))[1]
    assert db.main.deliver() == ["a", "b", "e"]


def test_window_begins_with_the_call_and_not_with_its_transaction(db: Database) -> None:
    db.queue()
    old = db.open()
    old.begin()
    began = old.one("select now()")
    eventually(lambda: db.main.one("select clock_timestamp() > %s + interval '50 ms'", began))
    once(old, "a")
    assert old.one("select dedup_until > now() + interval '1 hour 50 ms' from pgq.dedup_key")
    old.run("update pgq.dedup_key set dedup_until = now() + interval '1 us'")
    assert once(old, "b")[1], "now() is older than the end of the first window"
    old.commit()


def test_call_within_the_window_inserts_nothing_however_long_it_waits(db: Database) -> None:
    db.queue()
    first, second = db.open(), db.open()
    first.begin()
    ev_id, _ = once(first, "a")
    later = second.later(ONCE, "k", "b")
    wait_until_blocked(db.main.connection, second.pid)
    first.run("update pgq.dedup_key set dedup_until = clock_timestamp()")
    first.commit()
    assert read(later.result(30)) == (ev_id, False)
    assert once(db.main, "c")[1]


def test_repeated_call_waits_for_nobody_and_leaves_no_trace(db: Database) -> None:
    db.queue()
    ev_id, _ = once(db.main, "a")
    holder, caller = db.open(), db.open()
    holder.begin()
    holder.all("select from pgq.dedup_key for update")
    caller.begin()
    caller.run("set local lock_timeout = '1 s'")
    before = db.main.one("select last_value from pgq.event_1_id_seq")
    assert once(caller, "b") == (ev_id, False)
    assert caller.one("select pg_current_xact_id_if_assigned()") is None
    assert db.main.one("select last_value from pgq.event_1_id_seq") == before
    caller.commit()


def test_limit_of_a_transaction_counts_new_events_only(db: Database) -> None:
    db.queue(per_tx_limit="1")
    db.main.run("begin")
    ev_id, _ = once(db.main, "a")
    assert once(db.main, "b") == (ev_id, False)
    db.main.run("savepoint s")
    with refused("PQ007"):
        once(db.main, "c", "l")
    db.main.run("rollback to s")
    db.main.commit()
    assert keys(db.main) == ["k"]


def test_wrong_keys_and_windows_are_refused(db: Database) -> None:
    db.queue()
    for key in ("", None, "k" * 1001):
        with refused("PQ009"):
            db.main.one(ONCE, key, "a")
    for window in ("0", "-1 s", "101 years", None):
        with refused("PQ009"):
            db.main.one(WINDOW, window, "a")
    assert once(db.main, "a", "k" * 1000)[1]


def test_queue_that_refuses_events_refuses_repeated_ones_too(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    db.main.one("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    with refused("PQ006"):
        once(db.main, "b")
    with refused("PQ001"):
        db.main.one(ONCE.replace("'q'", "'nope'"), "k", "b")


def test_key_with_a_collation_of_its_own_is_found(db: Database) -> None:
    db.queue()
    db.main.run("create table codes (code text collate \"POSIX\"); insert into codes values ('k')")
    call = "select pgq.insert_event_once('q', code, '1 h', 't', 'd')::text from codes"
    ev_id, _ = read(db.main.one(call))
    assert read(db.main.one(call)) == (ev_id, False)


def test_cleaner_that_deletes_a_row_lets_the_waiting_call_insert(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    db.main.run(EXPIRE)
    assert read(db.behind(CLEAN, ONCE, "k", "b"))[1]
    assert db.main.deliver() == ["a", "b"]


def test_cleaner_leaves_the_row_of_an_open_call(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    once(db.main, "b", "gone")
    db.main.run(EXPIRE)
    caller = db.open()
    caller.begin()
    ev_id, _ = once(caller, "c")
    db.main.run("set lock_timeout = '2s'")
    assert db.main.one(CLEAN) == 0
    caller.commit()
    assert keys(db.main) == ["k"]
    assert once(db.main, "d") == (ev_id, False)
