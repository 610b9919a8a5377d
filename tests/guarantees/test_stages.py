"""Stages: events that wait, and come as if the transaction that commits them had inserted them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.guarantees.ranges import EVENTS, SHARE, STAGES, shared, ticks
from tests.guarantees.sessions import refused
from tests.guarantees.stage_play import Play
from tests.guarantees.stages import MAINT, commit_stage, open_stage, read, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database
    from tests.guarantees.stage_play import Taker


def _expect(play: Play, taker: Taker) -> None:
    """A consumer got what was committed, once, by whom, and of each of them all in one batch."""
    batches = [events for _, _, events in taker.ranges]
    given = [event for batch in batches for event in batch]
    assert sorted(data for _, _, data in given) == sorted(play.expected)
    assert {data: txid for _, txid, data in given} == play.expected
    assert all(batch == sorted(batch) for batch in batches)
    whose = [txid for batch in batches for txid in {txid for _, txid, _ in batch}]
    assert len(whose) == len(set(whose)), "what one transaction gives is in one batch"


def test_consumers_get_what_was_committed_once_whatever_overlaps(db: Database) -> None:
    db.queue(consumers=("c", "slow"))
    play = Play(db, 0, ("c", "slow"))
    play.run(500)
    for taker in play.takers:
        _expect(play, taker)
    assert play.given >= 3
    assert play.rotations >= 1


def test_ranges_with_stages_are_the_batches_at_any_time(db: Database) -> None:
    db.queue(consumers=("c", "slow", "keeper"))
    play = Play(db, 6, ("c", "slow"))
    play.run(300)
    for taker in play.takers:
        _expect(play, taker)
        for first, last, events in taker.ranges:
            assert db.main.all(EVENTS, first, last) == events
    whole = ticks(db.main)
    ranges = play.takers[0].ranges
    assert [(first, last) for first, last, _ in ranges] == list(pairwise(whole))
    for _ in range(5):
        first, last = sorted(play.random.sample(whole, 2))
        between = [e for a, b, events in ranges if first <= a and b <= last for e in events]
        assert db.main.all(EVENTS, first, last) == sorted(between)
        assert shared(db.main, first, last) == sorted(between), "its parts, read by several"
    assert len(db.main.all(STAGES, whole[0], whole[-1])) >= 3


def test_events_of_stages_come_in_one_batch_as_those_of_who_commits_them(db: Database) -> None:
    db.queue()
    first, second = stage(db.main, "a", "b"), stage(db.main, "c")
    db.main.insert("plain")
    assert db.main.deliver() == ["plain"]
    giver = db.open()
    giver.begin()
    giver.insert("beside")
    txid = commit_stage(giver, first, second)
    giver.commit()
    db.main.tick()
    batch = db.main.next()
    events = read(db.main, batch)
    assert [(ev_txid, data) for _, ev_txid, data in events] == [
        (txid, data) for data in ("a", "b", "c", "beside")
    ]
    assert db.main.finish(batch) == 1
    assert db.main.deliver() == []


def test_stage_in_progress_at_a_tick_waits_as_any_other(db: Database) -> None:
    db.queue()
    task = db.open()
    task.begin()
    task.insert("before")
    opened = open_stage(task)
    task.insert("after")
    db.main.insert("plain")  # so the tick lists the task among those in progress
    assert db.main.deliver() == ["plain"]
    assert opened is not None
    task.commit()
    assert db.main.deliver() == []
    commit_stage(db.main, opened)
    assert db.main.deliver() == ["before", "after"]


def test_commit_in_progress_over_ticks_gives_all_when_it_is_done(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a", "b")
    giver = db.open()
    giver.begin()
    txid = commit_stage(giver, opened)
    db.main.tick()
    db.main.tick_after("plain")
    batches = []
    for expected in ([], ["plain"]):
        batches.append(db.main.next())
        assert db.main.data(batches[-1]) == expected
        if not expected:
            assert db.main.finish(batches[-1]) == 1
    giver.commit()
    assert [data for _, _, data in read(db.main, batches[-1])] == ["plain"], "the same again"
    assert db.main.finish(batches[-1]) == 1
    db.main.tick()
    assert [event[1:] for event in read(db.main, db.main.next())] == [(txid, "a"), (txid, "b")]


def test_stage_given_by_a_transaction_older_than_a_tick_is_shared_after_it(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    giver = db.open()
    giver.begin()
    commit_stage(giver, opened)
    db.main.insert("plain")  # so the tick lists the giver among those in progress
    before = db.main.tick()
    giver.commit()
    after = db.main.tick()
    assert db.main.all(STAGES, before, after) == [(opened,)]
    assert shared(db.main, before, after) == db.main.all(EVENTS, before, after)


def test_share_of_a_stage_that_is_not_of_the_range_is_refused(db: Database) -> None:
    db.queue()
    first, opened = db.main.tick(), stage(db.main, "a")
    commit_stage(db.main, opened)
    second, third = db.main.tick(), db.main.tick()
    assert db.main.one(SHARE, first, second, [opened])
    for share in ([opened], [opened, None], [4711]):
        with refused("PQ009"):
            db.main.one(SHARE, second, third, share)


def test_stage_without_events_is_known_as_long_as_its_range_can_be_read(db: Database) -> None:
    db.queue()
    first, opened = db.main.tick(), stage(db.main)
    commit_stage(db.main, opened)
    last = db.main.tick()
    db.main.run(MAINT)
    assert db.main.all(STAGES, first, last) == [(opened,)]
    db.main.all("select pgq.unregister_consumer('q', 'c')")
    for _ in range(4):
        db.main.tick_after("later")
        db.main.rotate()
    db.main.run(MAINT)
    assert db.main.all("select from pgq.stage") == []


def test_stage_may_be_opened_by_a_transaction_older_than_a_rotation(db: Database) -> None:
    db.queue()
    task = db.open()
    task.begin()
    task.insert("a")
    db.main.deliver()
    assert db.main.rotate() == 1
    opened = open_stage(task)
    assert opened is not None
    task.commit()
    assert db.main.deliver() == []
    commit_stage(db.main, opened)
    assert db.main.deliver() == ["a"]


def test_stage_may_be_committed_by_a_transaction_older_than_it(db: Database) -> None:
    db.queue()
    giver = db.open()
    giver.begin()
    giver.insert("beside")
    opened = stage(db.main, "a")
    txid = commit_stage(giver, opened)
    assert txid is not None
    assert txid < db.main.one("select stage_txid from pgq.stage")
    assert db.main.deliver() == []
    giver.commit()
    assert db.main.deliver() == ["beside", "a"]


def test_ticker_learns_of_a_commit(db: Database) -> None:
    db.queue(ticker_max_count="1", ticker_max_lag="1 hour")
    opened = stage(db.main, "a")
    assert db.main.deliver() == []
    assert db.main.one("select pgq.ticker()") == 0
    commit_stage(db.main, opened)
    assert db.main.one("select pgq.ticker()") == 1
    assert db.main.drain() == ["a"]
