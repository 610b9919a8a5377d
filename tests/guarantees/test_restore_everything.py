"""A dump of a queue that uses every feature, restored where xids are smaller, larger, the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pgqpy.install import install
from tests.guarantees import everything
from tests.guarantees.delayed import MOVE
from tests.guarantees.everything import CANCELLED, CONSUMERS, Told, go_on, take_all
from tests.guarantees.restoring import (
    RESTORE_TAKES,
    burn,
    database,
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


@pytest.mark.parametrize("case", ["smaller", "larger", "repaired twice"])
def test_nothing_is_lost_doubled_undead_or_delivered_though_cancelled(
    clusters: Clusters, case: str
) -> None:
    smaller = case in ("smaller", "repaired twice")
    dumped = clusters.from_large if smaller else clusters.from_small
    with restored(dumped.path, clusters.large if case == "larger" else clusters.small) as db:
        db.main.one(everything.LOCK)
        db.main.one(everything.INSERT, "since", "b")
        if smaller:
            _expect_refusals(db, dumped.told)
            for _ in range(2 if case == "repaired twice" else 1):
                db.main.one("select pgq.repair_queue('q')")
        assert _range(db.main, dumped.told) == dumped.had
        go_on(db.main, dumped.told.ids)
        assert _range(db.main, dumped.told) == dumped.had
        _expect_the_rest(db.main, dumped.told)
        _expect_the_same_again(db.main)
        _expect_rotation(db.main)


def _expect_refusals(db: Database, told: Told) -> None:
    for call in (
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


def _expect_the_rest(session: Session, told: Told) -> None:
    for consumer in (*CONSUMERS, "asleep"):
        found = take_all(session, consumer)
        assert Counter(found) == told.to_come(consumer), consumer
        parked = [name for name in found if name.startswith("parked")]
        assert parked == sorted(parked), "in their order"
        dead = session.one(LEFT, consumer) or []
        all_dead = {"asleep": [], "plain": ["dead"]}.get(consumer, ["dead", "dead, revived"])
        assert dead == all_dead, consumer
    assert session.all("select ev_id, ev_data from pgq.delayed_event") == [(told.ids["far"], "far")]
    assert session.one("select count(*) from pgq.retry_queue") == 0
    assert session.one("select count(*) from pgq.parked") == 0


def _expect_the_same_again(session: Session) -> None:
    """Let all go back: what they had comes again, and nothing that was cancelled before."""
    _, last = session.all(ENDS)[0]
    for consumer in (*CONSUMERS, "asleep"):
        place = session.one(BACK, consumer)
        behind = {name for _, name in session.all(RANGE, place, last)}
        had = {name for name in CANCELLED if name.startswith(("retry", "parked"))}
        hidden = CANCELLED if consumer == "asleep" else CANCELLED - had
        hidden = {*hidden, "skipped"} if consumer == "plain" else hidden
        stays = {"early"} if consumer == "asleep" else set()  # its copy, from before the place
        expected = Counter((behind - hidden) | stays)
        assert Counter(take_all(session, consumer)) == expected, consumer


def _expect_rotation(session: Session) -> None:
    """Rotate all tables and lose nothing."""
    tables = set()
    for number in range(5):
        session.one(everything.INSERT, f"on {number}", "b")
        session.tick()
        session.one(LATER)  # lanes pass young ticks without events later
        for consumer in (*CONSUMERS, "asleep"):
            assert take_all(session, consumer) == [f"on {number}"]
        tables.add(session.rotate())
        session.one("select pgq.maint_skipped_events()")
    assert tables == {0, 1, 2}
