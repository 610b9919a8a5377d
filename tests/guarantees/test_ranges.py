"""Ranges of ticks: the same events as the batches between them, whenever they are read."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from psycopg.pq import TransactionStatus

from tests.guarantees.ranges import EVENTS, data, fill, ticks
from tests.guarantees.sessions import RC, RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


class Range(NamedTuple):
    """Two ticks, and the events that a batch between them had."""

    first: int
    last: int
    events: list[tuple[int, int, str]]


def _walk(session: Session, consumer: str = "c") -> list[Range]:
    """Take all batches; compare each with the range of its ticks."""
    ranges = []
    while (batch := session.next(consumer)) is not None:
        first, last = session.all(
            "select prev_tick_id, tick_id from pgq.get_batch_info(%s)", batch
        )[0]
        events = session.all(
            "select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s) where ev_retry is null",
            batch,
        )
        assert session.all(EVENTS, first, last) == events
        ranges.append(Range(first, last, events))
        assert session.finish(batch) == 1
    return ranges


def _step(db: Database, producers: list[Session], name: int, random: Random) -> None:
    """Let one of the producers go on, or the queue tick or rotate."""
    chance = random.randrange(12)
    if chance == 0:
        db.main.tick()
    elif chance == 1:
        db.main.rotate()
    elif chance == 2:
        _end_prepared(db, random)
    else:
        _work(random.choice(producers), name, random)


def _work(producer: Session, name: int, random: Random) -> None:
    if not _busy(producer):
        producer.begin(random.choice((RC, RR)))
    kind = random.choice(("commit", "rollback", "prepare", "savepoint", "more", "more", "more"))
    producer.insert(f"{kind} {name}")
    if kind == "prepare":
        producer.run(f"prepare transaction 'p{name}'")
    elif kind == "savepoint":
        producer.run("savepoint s")
        producer.insert(f"inside {name}")
        producer.run(random.choice(("rollback to s", "release s")))
    elif kind != "more":
        producer.run(kind)


def _busy(producer: Session) -> bool:
    return producer.connection.info.transaction_status != TransactionStatus.IDLE


def _end_prepared(db: Database, random: Random) -> None:
    for (gid,) in db.main.all("select gid from pg_prepared_xacts limit 1"):
        db.main.run(f"{random.choice(('commit', 'rollback'))} prepared '{gid}'")


def test_ranges_are_the_batches_whatever_overlaps_them(db: Database) -> None:
    random = Random(0)
    db.queue(consumers=("c", "keeper"), ntables="4")
    producers = [db.open() for _ in range(4)]
    ranges: list[Range] = []
    for name in range(250):
        _step(db, producers, name, random)
        if name % 25 == 0:
            ranges += _walk(db.main)
    for producer in producers:
        if _busy(producer):
            producer.commit()
    while db.main.one("select count(*) from pg_prepared_xacts"):
        _end_prepared(db, random)
    db.main.tick()
    ranges += _walk(db.main)

    for each in ranges:
        assert db.main.all(EVENTS, each.first, each.last) == each.events, "the same at any time"
    assert [(each.first, each.last) for each in ranges] == list(pairwise(ticks(db.main)))
    everything = sorted(event for each in ranges for event in each.events)
    assert everything == db.main.all("select ev_id, ev_txid, ev_data from pgq.event_1 order by 1")
    assert len(everything) > 50
    first, middle, last = ranges[0].first, ranges[len(ranges) // 2].first, ranges[-1].last
    halves = db.main.all(EVENTS, first, middle) + db.main.all(EVENTS, middle, last)
    assert sorted(halves) == everything == db.main.all(EVENTS, first, last)


def test_retried_events_belong_to_no_range(db: Database) -> None:
    db.queue()
    fill(db.main, "a")
    batch = db.main.next()
    assert db.main.one("select pgq.event_retry(%s, 1, 0)", batch) == 1
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    fill(db.main, "b")
    assert data(db.main, 1, 3) == ["a", "b"]
    assert data(db.main, 2, 3) == ["b"]
    assert db.main.drain() == ["a", "b"], "the consumer has it again"
