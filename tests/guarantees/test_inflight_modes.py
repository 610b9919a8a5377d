"""A shared consumer's settings, and how it becomes plain and shared again: G1, G3, G5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.inflight import (
    Claimed,
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
from tests.guarantees.sessions import refused
from tests.guarantees.stages import commit_stage, stage
from tests.support import gates

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

BULK = "insert into pgq.event_1_0 (ev_type, ev_data) select 't', g from generate_series(1, {}) g"
MODE = "select pgq.set_consumer_mode('q', 's', %s, %s, %s)"
REGISTER = "select pgq.register_shared_consumer('q', 's', %s, %s, %s, %s)"
LIMITS = "select pgq.set_consumer_limits('q', 's', %s, %s, %s)"
RETRIED = "select ev_data, ev_retry, ev_retry_after > now() from pgq.retry_queue order by ev_id"


def plain(session: Session) -> int:
    """Make the consumer plain."""
    return int(session.one(MODE, "plain", None, 1))


def share(session: Session, key: str | None = None, per_key: int = 1) -> int:
    """Make the consumer shared."""
    return int(session.one(MODE, "shared", key, per_key))


def everything(session: Session) -> list[list[Claimed]]:
    """Claim all there is, one by one."""
    return list(iter(lambda: receive(session), []))


def test_consumer_with_other_settings_is_refused(db: Database) -> None:
    db.queue(consumers=())
    assert db.main.one(REGISTER, "extra1", 2, 10, 0.5) == 1
    assert db.main.one(REGISTER, "extra1", 2, 10, 0.5) == 0
    with pytest.raises(psycopg.Error) as failed:
        db.main.one(REGISTER, "extra1", 3, None, 0.5)
    assert failed.value.sqlstate == "PQ020"
    assert failed.value.diag.message_primary == (
        "the consumer q/s is shared with per_key = 2, limit_in_flight = 10, not with "
        "per_key = 3, limit_in_flight = none"
    )
    assert "set_consumer_limits('q', 's', 3, null, 0.5)" in str(failed.value.diag.message_hint)
    assert "pgqpy consumer set q s per_key=3 limit_in_flight=none, or" in str(failed.value)
    with pytest.raises(psycopg.Error) as failed:
        db.main.one(REGISTER, None, 1, 10, 0.25)
    assert failed.value.sqlstate == "PQ020"
    assert "with key = extra1, per_key = 2, rate = 0.5/s, not with key = none" in str(failed.value)
    assert "pgqpy consumer set q s mode=shared key=none per_key=1 " in str(failed.value)
    assert "set_consumer_mode('q', 's', 'shared', NULL, 1)" in str(failed.value)
    assert db.main.one(LIMITS, 3, None, 0.5) == 1
    assert db.main.one(LIMITS, 3, None, 0.5) == 0
    assert db.main.one(REGISTER, "extra1", 3, None, 0.5) == 0
    assert db.main.one(REGISTER, "extra1", None, None, None) == 0  # the limits are not named
    with refused("PQ020"):
        db.main.one(REGISTER, None, None, None, None)


@pytest.mark.parametrize("begun", [False, True])
def test_plain_consumer_is_not_made_shared_by_registering(db: Database, begun: bool) -> None:
    db.queue(consumers=("s",))
    if begun:
        db.main.one("select pgq.open_batch('q', 's')")
    with pytest.raises(psycopg.Error) as failed:
        db.main.one(REGISTER, None, 1, None, None)
    assert failed.value.sqlstate == "PQ020"
    assert "is not shared" in str(failed.value)
    assert "set_consumer_mode('q', 's', 'shared')" in str(failed.value)


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("PQ009", "register_shared_consumer('q', 'x', null, 2)"),
        ("PQ009", "register_shared_consumer('q', 'x', 'extra1', 0)"),
        ("PQ009", "register_shared_consumer('q', 'x', 'extra1', null, 5)"),
        ("PQ009", "register_shared_consumer('q', 'x', null, 1, 0)"),
        ("PQ009", "register_shared_consumer('q', 'x', null, 1, null, 0)"),
        ("PQ009", "register_shared_consumer('q', 'x', null, 1, null, 'nan')"),
        ("PQ009", "register_shared_consumer('q', 'x', null, 1, null, 'infinity')"),
        ("PQ009", "set_consumer_limits('q', 's', null)"),
        ("PQ009", "set_consumer_limits('q', 's', 2)"),
        ("PQ020", "set_consumer_limits('q', 'c', 1)"),
        ("PQ002", "set_consumer_limits('q', 'x', 1)"),
        ("PQ009", "set_consumer_mode('q', 's', 'lanes')"),
        ("PQ009", "set_consumer_mode('q', 's', null)"),
        ("PQ009", "set_consumer_mode('q', 's', 'shared', 'ev_extra1')"),
        ("PQ002", "set_consumer_mode('q', 'x', 'shared')"),
        ("PQ021", "set_consumer_mode('q', 'w', 'shared')"),
        ("PQ020", "set_consumer_mode('q', 'w.1', 'shared')"),
        ("PQ021", "set_consumer_mode('q', 'c', 'shared')"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(db: Database, code: str, query: str) -> None:
    shared(db, "a")
    db.main.one("select pgq.register_consumer('q', 'c')")
    db.main.one("select pgq_coop.register_subconsumer('q', 'w', '1')")
    insert(db.main, "b")
    db.main.tick()
    db.main.next("c")
    db.main.one("select pgq_coop.next_batch('q', 'w', '1')")
    with refused(code):
        db.main.one(f"select pgq.{query}")


def test_plain_consumer_becomes_shared_at_its_position(db: Database) -> None:
    db.queue(consumers=("s",))
    for each in ("a", "b"):
        insert(db.main, each)
        db.main.tick()
    batch = db.main.next("s")
    assert batch is not None
    assert db.main.data(batch) == ["a"]
    with refused("PQ021"):
        share(db.main)
    db.main.one("select pgq.event_retry(%s, 1, 0)", batch)
    db.main.finish(batch)
    assert share(db.main, "extra1") == 1
    assert drain(db.main) == ["b"]
    db.main.one("select pgq.maint_retry_events()")
    assert drain(db.main) == ["a"]
    with refused("PQ020"):
        db.main.next("s")


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("key", [None, "extra1"])
def test_what_is_in_flight_comes_in_batches_once(
    db: Database, key: str | None, rotated: bool
) -> None:
    shared(db, "d-one", "x-dead", "r-etried", "l-ater", "o-ld", key=key)
    session = db.main
    claimed = {each.data: [each] for each in receive(session, 5)}
    assert done(session, claimed["d-one"]) == 1
    assert call(session, "dead", claimed["x-dead"], "bad") == 1
    assert call(session, "retry", claimed["r-etried"], "0") == 1
    assert call(session, "retry", claimed["l-ater"], "1 hour") == 1
    assert call(session, "release", claimed["o-ld"]) == 1
    if rotated:
        session.one("select pgq.set_consumer_filter('q', 's', '{\"types\": [\"t\"]}')")
        for table in (1, 2, 0):
            session.tick()
            session.run("update pgq.front set front_moved = '-infinity'")
            assert [call(session, "release", each) for each in everything(session)]
            assert session.rotate() == table
    insert(session, "d-two", "f-irst", "f-next", "n-one")
    claimed = {claim[0].data: claim for claim in everything(session)}
    assert done(session, claimed["d-two"]) == 1
    assert call(session, "retry", claimed["r-etried"], "0") == 1
    for each in {"o-ld", "f-irst", "f-next", "n-one"} & set(claimed):
        assert call(session, "release", claimed[each]) == 1
    insert(session, "new")
    assert plain(session) == 1
    assert session.one("select count(*) from pgq.inflight") == 0
    found = session.deliver("s")
    assert [each for each in found if each != "o-ld"] == ["f-irst", "f-next", "n-one", "new"]
    retried = session.all(RETRIED)
    assert ("r-etried", 2, False) in retried
    assert ("l-ater", 1, True) in retried
    assert ("o-ld" in found) + (("o-ld", 0, False) in retried) == 1
    session.run("update pgq.retry_queue set ev_retry_after = now()")
    session.one("select pgq.maint_retry_events()")
    again = session.deliver("s")
    assert sorted(found + again) == sorted(
        ["f-irst", "f-next", "n-one", "new", "l-ater", "r-etried", "o-ld"]
    )
    assert session.one("select count(*) from pgq.revive_dead_events('q', 's')") == 1


def test_stages_and_pieces_come_in_batches_once(db: Database) -> None:
    shared(db)
    staged, fresh, waits = (
        stage(db.open(), each, writer=each) for each in ("staged", "fresh", "waits")
    )
    follow(db)  # so the position sees their transactions, not those that release them
    assert commit_stage(db.main, staged, writer="staged")
    insert(db.main, "a")
    assert sorted(drain(db.main)) == ["a", "staged"]
    assert commit_stage(db.main, fresh, writer="fresh")
    claimed = receive(db.main)
    assert call(db.main, "release", claimed) == 1
    db.main.run(BULK.format(5000))
    late = db.open()
    late.begin()
    insert(late, "late")
    first = receive(db.main, 3)
    assert data(first) == ["fresh"]
    some = receive(db.main, 2) + receive(db.main, 2)
    assert len(some) > 1
    assert call(db.main, "release", first) == 1
    for each in some:
        assert done(db.main, [each]) == 1
    assert db.main.one("select count(*) > 0 from pgq.piece")
    assert plain(db.main) == 1
    late.commit()
    assert commit_stage(db.main, waits, writer="waits")
    found = db.main.deliver("s")
    expected = [*map(str, range(1, 5001)), "fresh", "late", "waits"]
    assert sorted(found + data(some)) == sorted(expected)
    assert len(found) == len(expected) - len(some)


def test_claimed_events_keep_the_consumer_shared(db: Database) -> None:
    shared(db, *"abcd")
    holder = db.main.one("select pgq.hold('q', 's', 'host:1')")
    held = receive(db.main, 2, holder=holder)
    claimed = receive(db.main)
    with pytest.raises(psycopg.Error) as failed:
        plain(db.main)
    assert failed.value.sqlstate == "PQ021"
    assert failed.value.diag.message_detail == "2 by host:1, 1 by receivers"
    assert done(db.main, held) == 2
    end_lease(db, claimed)
    assert plain(db.main) == 1  # and returns what nobody holds any more
    assert db.main.all("select ev_data, ev_retry from pgq.retry_queue") == [("c", 1)]
    assert db.main.deliver("s") == ["d"]
    assert done(db.main, claimed) == 0 if share(db.main) else None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_claim_that_is_not_committed_is_waited_for(db: Database, limit: int) -> None:
    shared(db, "a", "b", "c")
    assert call(db.main, "release", receive(db.main, 3)) == 3
    with refused("PQ021"):
        db.behind(lambda session: receive(session, limit), MODE, "plain", None, 1)
    assert len(drain(db.main)) == 3 - limit


def test_refill_that_waited_gets_nothing(db: Database) -> None:
    shared(db, "a")
    one, other = db.open(), db.open()
    one.begin()
    assert plain(one) == 1
    waits = other.later("select ev_data from pgq.receive('q', 's', i_alone => true)")
    assert gates.wait_until_blocked(db.main.connection, other.pid) == [one.pid]
    one.commit()
    assert waits.result(timeout=30) is None
    assert db.main.one("select count(*) from pgq.inflight") == 0
    assert db.main.deliver("s") == ["a"]


def test_mode_changes_again_and_again(db: Database) -> None:
    shared(db)
    found = []
    for number in range(4):
        insert(db.main, f"a{number}", f"b{number}", f"c{number}")
        claimed = receive(db.main)
        found += data(claimed)
        assert done(db.main, claimed) == 1
        assert call(db.main, "retry", receive(db.main), "0") == 1
        assert plain(db.main) == 1
        db.main.tick()
        batch = db.main.next("s")
        if batch is not None:
            found += db.main.data(batch)
            db.main.finish(batch)
        db.main.one("select pgq.maint_retry_events()")
        assert share(db.main) == 1
    found += drain(db.main)
    assert sorted(found) == sorted(f"{key}{number}" for key in "abc" for number in range(4))


def test_key_changes_when_nothing_is_in_flight(db: Database) -> None:
    shared(db, "a1", "a2")
    claimed = receive(db.main)
    with refused("PQ021"):
        share(db.main, "extra1")
    assert call(db.main, "release", claimed) == 1
    with refused("PQ021"):
        share(db.main, "extra1")
    drain(db.main)
    db.main.run(BULK.format(5000))
    receive(db.main)
    db.main.run("delete from pgq.inflight")
    with refused("PQ021"):
        share(db.main, "extra1")
    drain(db.main, 1000)
    assert share(db.main, "extra1") == 1
    insert(db.main, "b1", "b2")
    assert data(receive(db.main)) == ["b1"]
    assert receive(db.main) == []


REFILL = """
    alter function pgq.refill(pgq.registration, int, boolean, bigint) rename to refill_itself;
    create function pgq.refill(
        s pgq.registration, i_limit int, i_alone boolean, i_seen bigint)
    returns boolean language plpgsql as $$ begin
    {}
    return pgq.refill_itself(s, i_limit, i_alone, i_seen); end $$"""


def test_refill_does_not_read_by_a_key_that_was_changed(db: Database) -> None:
    shared(db)
    receive(db.main)
    db.main.run("update pgq.front set front_swept = 'infinity'")  # a sweep has the refill's lock
    insert(db.main, "a1", "a2")
    receiver = db.open()
    with db.held(receiver, REFILL) as gate:
        receives = receiver.later("select ev_data from pgq.receive('q', 's')")
        gate.wait_for_arrival()
        assert share(db.main, "extra1") == 1
        gate.open()
        with refused("40001"):
            receives.result(timeout=30)
    assert data(receive(db.main)) == ["a1"]
    assert receive(db.main) == []


def test_refill_that_comes_late_gets_nothing(db: Database) -> None:
    shared(db)
    receive(db.main)
    db.main.run("update pgq.front set front_swept = 'infinity'")
    insert(db.main, "a")
    receiver = db.open()
    with db.held(receiver, REFILL) as gate:
        receives = receiver.later("select ev_data from pgq.receive('q', 's')")
        gate.wait_for_arrival()
        assert plain(db.main) == 1
        gate.open()
        assert receives.result(timeout=30) is None
    assert db.main.one("select count(*) from pgq.inflight") == 0
    assert db.main.deliver("s") == ["a"]


def test_detached_consumer_keeps_its_mode(db: Database) -> None:
    shared(db, "a")
    receive(db.main)
    db.main.run("update pgq.registration set sub_detached = now()")
    with refused("PQ024"):
        plain(db.main)


def test_position_follows_before_the_consumer_is_plain(db: Database) -> None:
    shared(db)
    receive(db.main)
    db.main.run("update pgq.front set front_swept = 'infinity'")  # or a sweep moves it
    insert(db.main, "a")
    db.main.tick()
    assert done(db.main, receive(db.main)) == 1
    insert(db.main, "b")
    assert plain(db.main) == 1
    assert db.main.one("select count(*) from pgq.skipped_event") == 0
    assert db.main.deliver("s") == ["b"]
