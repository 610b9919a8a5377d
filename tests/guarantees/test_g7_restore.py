"""G7: a dump restored where transaction ids are smaller, or larger; a wrong schema version."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pgqpy.errors import SchemaRefused
from pgqpy.install import install
from tests.guarantees import stages
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.guarantees.sessions import Database, Session

CONSUMERS = ("idle", "open", "lagging", "retrying")
STAGED = ("staged", "staged, late", "staged, later", "staged, dropped", "staged, waiting")


class Dump(NamedTuple):
    """A dumped queue, and what each of its consumers has still to get."""

    path: Path
    to_come: dict[str, list[str]]
    open_batch: int
    open_events: list[str]


class Clusters(NamedTuple):
    """A cluster whose transaction ids are large, one where they are small, dumps of both."""

    large: EmbeddedServer
    small: EmbeddedServer
    from_large: Dump
    from_small: Dump


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Two clusters and a dump of the same story told in each."""
    with two_clusters() as (large, small):
        yield Clusters(large, small, _dump(large), _dump(small))


def _dump(server: EmbeddedServer) -> Dump:
    with database(server, "told") as db:
        install(db.main.connection)
        burn(db.main, RESTORE_TAKES)
        to_come, open_batch = _story(db)
        open_events = db.main.data(open_batch)
        return Dump(write_dump(server, db), to_come, open_batch, open_events)


def _story(db: Database) -> tuple[dict[str, list[str]], int]:
    """Leave consumers in every state; return what each has to get, and the open batch."""
    db.queue(consumers=CONSUMERS, ticker_max_lag="0")
    db.main.insert("done")
    late, unticked = db.open(), db.open()
    late.begin()
    late.insert("late")  # in progress at the first ticks
    opened = {name: stages.stage(db.main, name, writer=name) for name in STAGED}
    db.main.tick()
    for consumer in CONSUMERS:
        _take_one(db.main, consumer, retry=consumer == "retrying")
    db.main.rotate()
    db.main.tick_after("second")
    late.commit()
    db.main.one(stages.DROP, "staged, dropped")
    stages.commit_stage(db.main, opened["staged"], writer="staged")
    db.main.tick_after("third")
    seen = ["second", "late", "staged", "third"]
    assert db.main.drain("idle") == db.main.drain("retrying") == seen
    open_batch = db.main.next("open")
    assert open_batch is not None
    unticked.begin()
    unticked.insert("in progress at the last tick")
    stages.commit_stage(unticked, opened["staged, late"], writer="staged, late")
    db.main.tick()
    assert db.main.drain("idle") == []
    unticked.commit()
    db.main.insert("after the last tick")
    stages.commit_stage(db.main, opened["staged, later"], writer="staged, later")
    stages.stage(db.main, "waiting after the last tick", writer="staged, waiting")
    rest = ["in progress at the last tick", "staged, late", "after the last tick", "staged, later"]
    behind = [*seen, *rest]
    to_come = {"idle": rest, "open": behind, "lagging": behind, "retrying": ["done", *rest]}
    return to_come, open_batch


def _take_one(session: Session, consumer: str, *, retry: bool) -> None:
    batch = session.next(consumer)
    assert session.data(batch) == ["done"]
    if retry:
        assert session.one("select pgq.batch_retry(%s, 0)", batch) == 1
    assert session.finish(batch) == 1


@contextmanager
def _restored(dumped: Dump, target: EmbeddedServer) -> Iterator[Database]:
    """Restore a dump into a new database of a cluster; events go on being inserted there."""
    with restored(dumped.path, target) as db:
        db.main.insert("since the restore")
        db.main.run("begin")
        db.main.insert("since, rolled back")
        db.main.rollback()
        yield db


def _expect_the_rest(db: Database, dump: Dump, *, finished: str | None = None) -> None:
    """Let every consumer take what it has to get, each event once, and go on from there."""
    while db.main.one("select pgq.maint_retry_events()"):
        pass
    db.main.tick_after("after the repair")
    for consumer in CONSUMERS:
        expected = [*dump.to_come[consumer], "since the restore", "after the repair"]
        if consumer == finished:
            expected = [data for data in expected if data not in dump.open_events]
        assert sorted(db.main.drain(consumer)) == sorted(expected), consumer
    db.main.one(stages.DROP, "staged, waiting")  # rotation would wait for it
    _expect_rotation(db)


def _expect_rotation(db: Database) -> None:
    """Rotate all tables and lose nothing."""
    seen = set()
    for number in range(5):
        db.main.tick_after(f"on {number}")
        assert [db.main.drain(consumer) for consumer in CONSUMERS] == [[f"on {number}"]] * 4
        seen.add(db.main.rotate())
        db.main.one("select pgq.maint_ticks('q')")
    assert seen == {0, 1, 2}


def test_restore_where_xids_are_smaller_is_refused_until_repaired(clusters: Clusters) -> None:
    dump = clusters.from_large
    with _restored(dump, clusters.small) as db:
        _expect_that_others_go_on(db)
        for call in ("ticker('q')", "tick_queue('q')", "maint_rotate_tables_step1('q')"):
            with refused("PQ012"):
                db.main.one(f"select 1 from pgq.{call}")
        assert db.main.one("select pgq.maint_retry_events()") == 0
        kept = [db.main.one("select pgq.repair_queue('q')") for _ in range(3)]
        assert kept[0] > 0
        assert len(set(kept)) == 1, "a repair of what is sound changes nothing"
        assert db.main.finish(dump.open_batch) == 0  # a session that read it before, or too late
        assert db.main.data(db.main.next("open")) == dump.open_events
        _expect_the_rest(db, dump)
        db.main.one("select pgq.repair_queue('q')")
        _expect_rotation(db)


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


def test_open_batch_finished_before_the_repair_is_not_given_again(clusters: Clusters) -> None:
    dump = clusters.from_large
    with _restored(dump, clusters.small) as db:
        assert db.main.next("open") == dump.open_batch
        with refused("PQ012"):
            db.main.data(dump.open_batch)
        assert db.main.finish(dump.open_batch) == 1  # who read it before the dump may finish it
        db.main.one("select pgq.repair_queue('q')")
        _expect_the_rest(db, dump, finished="open")


def test_restore_where_xids_are_the_same_or_larger_goes_on_by_itself(clusters: Clusters) -> None:
    dump = clusters.from_small
    for target in (clusters.small, clusters.large):
        with _restored(dump, target) as db:
            db.main.tick()
            _expect_the_rest(db, dump)


def test_copy_whose_xids_have_caught_up_is_refused_all_the_same(clusters: Clusters) -> None:
    dump = clusters.from_small
    with new_cluster() as fresh:
        roles = fresh.directory / "roles.sql"
        roles.write_text(
            "create role pgq_reader; create role pgq_writer;"
            " create role pgq_admin; create role pgq_ticker; create role pgq_dashboard;"
        )
        fresh.run("psql", "--quiet", "--dbname", fresh.dsn(), "--file", str(roles))
        with _restored(dump, fresh) as db:
            last = db.main.one("select max(txid_snapshot_xmax(tick_snapshot)) from pgq.tick")
            behind = last - db.main.one("select txid_current()")
            assert behind > 0  # what was inserted since looks older than the last tick
            burn(db.main, behind + 10)
            with refused("PQ012"):
                db.main.tick()
            db.main.one("select pgq.repair_queue('q')")
            _expect_the_rest(db, dump)


def test_tick_that_would_see_less_than_the_last_is_refused(db: Database) -> None:
    db.queue()
    xid = db.main.one("select txid_current()") + 1_000_000
    db.main.connection.execute("update pgq.tick set tick_snapshot = %s", [f"{xid}:{xid}:"])
    with refused("PQ012"):
        db.main.tick()
    db.main.one("select pgq.repair_queue('q')")
    db.main.insert("a")
    assert db.main.deliver() == ["a"]


def test_schema_of_a_newer_version_is_refused(db: Database) -> None:
    db.main.run("update pgq.installation set version = version + 1")
    with pytest.raises(SchemaRefused):
        install(db.main.connection)
    db.queue()  # the engine that is there goes on
