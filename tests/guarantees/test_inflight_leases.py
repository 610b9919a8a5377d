"""Claims that end without done: their events come again, and what kills processes is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.inflight import (
    call,
    data,
    done,
    end_lease,
    receive,
    shared,
)
from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def test_lease_that_ended_is_lost(db: Database) -> None:
    shared(db, "a", "b")
    late = receive(db.main)
    assert done(db.main, late) == 1
    late = receive(db.main)
    end_lease(db, late)
    (again,) = receive(db.open())
    assert (again.data, again.attempts) == ("b", 2)
    assert done(db.main, late) == 0
    assert done(db.main, [again]) == 1


def test_done_that_commits_late_wins_over_the_end_of_the_lease(db: Database) -> None:
    shared(db, "a")
    one = db.open()
    claimed = receive(one)
    end_lease(db, claimed)
    one.begin()
    assert done(one, claimed) == 1
    assert receive(db.main) == []  # passes over the locked run
    one.commit()
    assert receive(db.main) == []
    assert db.main.one("select count(*) from pgq.inflight") == 0


def test_extended_lease_does_not_end(db: Database) -> None:
    shared(db, "a")
    claimed = receive(db.main)
    end_lease(db, claimed)
    assert db.main.one("select pgq.extend('q', 's', %s, '1 minute')", claimed[0].token) == 1
    assert receive(db.open()) == []
    assert db.main.one("select pgq.extend('q', 's', 5, '1 minute')") == 0


def test_killer_is_found_among_many_and_no_innocent_dies(db: Database) -> None:
    shared(db, *(f"a{number}" for number in range(30)))
    found, deaths = [], 0
    while claimed := receive(db.main, 30):
        if any(each.data == "a7" for each in claimed):
            end_lease(db, claimed)
            deaths += 1
        else:
            found += data(claimed)
            assert done(db.main, claimed) == len(claimed)
    assert db.main.all("select ev_data from pgq.dead_event") == [("a7",)]
    assert sorted(found) == sorted(f"a{number}" for number in range(30) if number != 7)
    assert deaths == 6  # among 30 twice, 3, and three times alone


def test_event_that_was_retried_is_no_killer(db: Database) -> None:
    shared(db, "a")
    for _ in range(5):
        assert call(db.main, "retry", receive(db.main), "0") == 1
    end_lease(db, receive(db.main))
    (claimed,) = receive(db.main)
    assert (claimed.data, claimed.attempts) == ("a", 7)


def test_claims_of_a_dead_process_end_at_once(db: Database) -> None:
    shared(db, *"abc")
    holder = db.open()
    number = holder.one("select pgq.hold('q', 's', 'host:1', '1 hour')")
    assert data(receive(holder, 2, holder=number)) == ["a", "b"]
    assert data(receive(db.main, 2)) == ["c"]
    db.main.one("select pg_terminate_backend(%s, 10000)", holder.pid)
    again = receive(db.main, 2)
    assert {each.attempts for each in again} == {2}
    assert sorted(data(again)) == ["a", "b"]  # one dead process makes no suspects
    end_lease(db, again)
    assert len(receive(db.main, 2)) == 1  # the second one does, and they come in parts


def test_restart_of_the_server_ends_no_lease(db: Database) -> None:
    """All session locks are free then, while handlers go on."""
    shared(db, "a")
    number = db.main.one("select pgq.hold('q', 's', 'host:1', '1 hour', false)")
    assert data(receive(db.main, holder=number)) == ["a"]
    db.main.run("update pgq.holder set holder_server = now() - interval '1 day', holder_pid = 1")
    assert receive(db.open()) == []
    db.main.run("update pgq.holder set holder_until = now() - interval '1 second'")
    assert data(receive(db.open())) == ["a"]
    assert db.main.one("select pgq.renew(%s)", number) is None


def test_claims_of_a_holder_that_is_gone_are_returned(db: Database) -> None:
    shared(db, "a")
    number = db.main.one("select pgq.hold('q', 's', 'host:1')")
    assert data(receive(db.main, holder=number)) == ["a"]
    db.main.run("delete from pgq.holder")
    with refused("PQ025"):
        receive(db.main, holder=number)
    db.main.run("update pgq.front set front_swept = '-infinity', front_looked = '-infinity'")
    assert data(receive(db.main)) == ["a"]
