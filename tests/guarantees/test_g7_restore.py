"""G7: a dump of a queue that uses every feature, restored where xids are smaller, larger, the same.

Also a wrong schema version.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pgqpy.install import install
from tests.guarantees import everything, stages
from tests.guarantees.delayed import MOVE
from tests.guarantees.everything import CANCELLED, EVERYBODY, SHARED, Told, go_on, take_all
from tests.guarantees.restoring import (
    RESTORE_TAKES,
    burn,
    database,
    new_cluster,
    restored,
    two_clusters,
    write_dump,
)
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import LATER
from tests.guarantees.test_cron import DAY, NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.guarantees.sessions import Database, Session

RANGE = "select ev_id, ev_data from pgq.get_tick_events('q', %s, %s)"
LEFT = "select array_agg(ev_data order by ev_data) from pgq.get_dead_events('q', %s)"
BACK = "select tick_id from pgq.seek_consumer('q', %s, null, false, '-infinity')"
ENDS = "select min(tick_id), max(tick_id) from pgq.tick"
REPAIR = "select pgq.repair_queue('q')"


class Dumped(NamedTuple):
    """A dump, the story that it has, and what its range of ticks had."""

    path: Path
    told: Told
    had: list[tuple[int, str]]


class Clusters(NamedTuple):
    """A cluster whose transaction ids are large, one where they are small, dumps of both."""

    large: EmbeddedServer
    small: EmbeddedServer
    from_large: Dumped
    from_small: Dumped


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Two clusters and a dump of the same story told in each."""
    with two_clusters() as (large, small):
        yield Clusters(large, small, _dumped(large), _dumped(small))


def _dumped(server: EmbeddedServer) -> Dumped:
    with database(server, "told") as db:
        install(db.main.connection)
        burn(db.main, RESTORE_TAKES)
        told = Told(db)
        return Dumped(write_dump(server, db), told, _range(db.main, told))


def _range(session: Session, told: Told) -> list[tuple[int, str]]:
    return sorted(session.all(RANGE, *told.range))


@contextmanager
def _restored(dumped: Dumped, target: EmbeddedServer) -> Iterator[Database]:
    """Restore a dump into a new database of a cluster; events go on being inserted there."""
    with restored(dumped.path, target) as db:
        db.main.one(everything.INSERT, "since", "b")
        db.main.run("begin")
        db.main.insert("since, rolled back")
        db.main.rollback()
        yield db


def test_restore_where_xids_are_smaller_is_refused_until_repaired(clusters: Clusters) -> None:
    dumped = clusters.from_large
    with _restored(dumped, clusters.small) as db:
        _expect_that_others_go_on(db)
        _expect_refusals(db, dumped.told)
        kept = [db.main.one(REPAIR) for _ in range(3)]
        assert kept[0] > 0
        assert len(set(kept)) == 1, "a repair of what is sound changes nothing"
        assert db.main.finish(dumped.told.open_batch) == 0  # who read it before, or too late
        assert db.main.data(db.main.next("open")) == dumped.told.open_events
        with refused("PQ018"):
            _release(db.main, dumped.told)  # it has to be written again
        assert stages.commit_stage(db.main, writer="staged") is None, "as before the dump"
        _expect_all(db.main, dumped)
        again = stages.stage(db.main, "written again", writer="staged, waiting")
        stages.commit_stage(db.main, again, writer="staged, waiting")
        db.main.one(REPAIR)
        _expect_rotation(db.main, "written again")


def test_restore_where_xids_are_the_same_or_larger_goes_on_by_itself(clusters: Clusters) -> None:
    for target in (clusters.small, clusters.large):
        with _restored(clusters.from_small, target) as db:
            _expect_all(db.main, clusters.from_small)


def test_open_batch_finished_before_the_repair_is_not_given_again(clusters: Clusters) -> None:
    told = clusters.from_large.told
    with _restored(clusters.from_large, clusters.small) as db:
        assert db.main.next("open") == told.open_batch
        with refused("PQ012"):
            db.main.data(told.open_batch)
        assert db.main.finish(told.open_batch) == 1  # who read it before the dump may finish it
        db.main.one(REPAIR)
        go_on(db.main, told.ids)
        assert Counter(take_all(db.main, "open")) == told.to_come("open") - Counter(
            told.open_events
        )


def test_copy_whose_xids_have_caught_up_is_refused_all_the_same(clusters: Clusters) -> None:
    with new_cluster() as fresh:
        roles = fresh.directory / "roles.sql"
        roles.write_text(
            "create role pgq_reader; create role pgq_writer;"
            " create role pgq_admin; create role pgq_ticker; create role pgq_dashboard;"
            " create role pgq_capture;"
        )
        fresh.run("psql", "--quiet", "--dbname", fresh.dsn(), "--file", str(roles))
        with _restored(clusters.from_small, fresh) as db:
            last = db.main.one("select max(txid_snapshot_xmax(tick_snapshot)) from pgq.tick")
            behind = last - db.main.one("select txid_current()")
            assert behind > 0  # what was inserted since looks older than the last tick
            burn(db.main, behind + 10)
            with refused("PQ012"):
                db.main.tick()
            db.main.one(REPAIR)
            _expect_all(db.main, clusters.from_small)


def _expect_that_others_go_on(db: Database) -> None:
    """Tick and read two queues, one on each side of the one that waits for its repair."""
    sound = ["a sound one", "sound, by name behind q"]
    for name in sound:
        db.queue(name, ticker_max_lag="0")
        db.main.insert("event", name)
    due = {row[0] for row in db.main.all("select pgq.ticker_due()")}
    assert due >= set(sound)
    assert db.main.one("select pgq.ticker()") == 2
    assert [db.main.drain(queue=name) for name in sound] == [["event"], ["event"]]


def _expect_refusals(db: Database, told: Told) -> None:
    db.main.one("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    with refused("PQ012"):
        _release(db.main, told)
    db.main.begin()
    with refused("PQ012"):
        stages.open_stage(db.main, "staged, waiting")
    db.main.rollback()
    for call in (
        "ticker('q')",
        "tick_queue('q')",
        "cancel_event('q', '{1}')",
        "maint_rotate_tables_step1('q')",
        f"get_tick_events('q', {told.range[0]}, {told.range[1]})",
    ):
        with refused("PQ012"):
            db.main.one(f"select 1 from pgq.{call}")
    assert db.main.one("select pgq.maint_retry_events()") == 0
    assert db.main.one(MOVE) == 0, "delayed events wait too"
    assert db.main.one(everything.FIRE, NOW, NOW, NOW + DAY) is None


def _release(session: Session, told: Told) -> None:
    stages.commit_stage(session, told.stages["staged, waiting"], writer="staged, waiting")


def _expect_all(session: Session, dumped: Dumped) -> None:
    """Let everybody take what is to come, each event once, go back, and go on."""
    assert _range(session, dumped.told) == dumped.had
    go_on(session, dumped.told.ids)
    assert _range(session, dumped.told) == dumped.had
    _expect_the_rest(session, dumped.told)
    _expect_the_same_again(session)
    session.one(stages.DROP, "staged, waiting")  # rotation would wait for it
    _expect_rotation(session)


def _expect_the_rest(session: Session, told: Told) -> None:
    for consumer in EVERYBODY:
        found = take_all(session, consumer)
        assert Counter(found) == told.to_come(consumer), consumer
        parked = [name for name in found if name.startswith("parked")]
        assert parked == sorted(parked), "in their order"
        dead = session.one(LEFT, consumer) or []
        all_dead = {"asleep": [], "open": [], "plain": ["dead"]}
        assert dead == all_dead.get(consumer, ["dead", "dead, revived"]), consumer
    assert session.all("select ev_id, ev_data from pgq.delayed_event") == [(told.ids["far"], "far")]
    assert session.one("select count(*) from pgq.retry_queue") == 0
    assert session.one("select count(*) from pgq.inflight") == 0


def _expect_the_same_again(session: Session) -> None:
    """Let all go back: what they had comes again, and nothing that was cancelled before."""
    _, last = session.all(ENDS)[0]
    for consumer in EVERYBODY:
        place = session.one(BACK, consumer)
        behind = {name for _, name in session.all(RANGE, place, last)}
        had = {name for name in CANCELLED if name.startswith(("retry", "parked"))}
        if consumer in SHARED:  # what is cancelled in flight does not come again
            had = set() if consumer == "keyed" else {"parked, cancelled"}
        hidden = CANCELLED if consumer == "asleep" else CANCELLED - had
        hidden = {*hidden, "skipped"} if consumer == "plain" else hidden
        stays = {"early"} if consumer == "asleep" else set()  # its copy, from before the place
        expected = Counter((behind - hidden) | stays)
        assert Counter(take_all(session, consumer)) == expected, consumer


def _expect_rotation(session: Session, *before: str) -> None:
    """Rotate all tables and lose nothing."""
    tables = set()
    for number in range(5):
        session.one(everything.INSERT, f"on {number}", "b")
        session.tick()
        session.one(LATER)
        for consumer in EVERYBODY:
            found = take_all(session, consumer)
            assert sorted(found) == [f"on {number}", *(before if number == 0 else ())]
        tables.add(session.rotate())
        session.one("select pgq.maint_skipped_events()")
        session.one("select pgq.maint_ticks('q')")
    assert tables == {0, 1, 2}
