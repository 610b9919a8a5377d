"""What a tick holds is counted by the rows that are there, whenever their ids were taken."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from pgqpy import calls
from pgqpy.records import TickInfo
from pgqpy.tick_sizes import LEAST, Count, IdRange, TickSize, estimate, late_transactions
from tests.spark.feed import rows_of

INSERT = "select pgq.insert_event('orders', 't', 'x') from generate_series(1, %s)"


@pytest.fixture
def slow(connect):
    """A session whose transaction stays open."""
    return connect(autocommit=False)


def in_steps(feed, slow, steps):
    """Insert so many events in one transaction, with a tick after each step and at the end."""
    for events in steps:
        slow.execute(INSERT, [events])
        feed.tick()
    slow.commit()
    return feed.tick()


def counts(feed, **options):
    reader = feed.batch(**options)
    return [len(rows_of(reader, [partition])) for partition in reader.partitions()]


@pytest.mark.parametrize("steps", [[1600] * 10, [12_000, 4_000], [16_000]])
def test_a_transaction_that_ticks_passed_is_cut_by_its_real_ids(feed, slow, steps):
    in_steps(feed, slow, steps)
    assert counts(feed, minPartitions=8) == [2000] * 8


def test_ids_from_before_the_range_are_known_too(feed, slow):
    slow.execute(INSERT, [600])
    start = feed.tick()
    feed.insert(*"abcdefgh")
    in_steps(feed, slow, [200])
    assert counts(feed, minPartitions=4, startingOffsets={"orders": start}) == [202] * 4


def test_a_transaction_that_the_range_does_not_see_is_left_out(feed, slow):
    other = [feed.insert(*"abcd") for _ in range(4)]
    in_steps(feed, slow, [16_000])
    end = len(other) + 2
    assert counts(feed, minPartitions=4, endingOffsets={"orders": end}) == [4] * 4


def test_events_that_were_staged_for_long_count_where_they_were_released(feed, client):
    with client.transaction():
        stage = client.call(calls.produce.open_stage(feed.queue, "w", 1))
        client.insert_events(feed.queue, (("t", "x") for _ in range(1000)))
    feed.tick()
    feed.insert(*"abcdefgh")
    client.call(calls.produce.commit_stage(feed.queue, "w", 1, [stage], 1000))
    feed.tick()
    found = counts(feed, minPartitions=4)
    assert sorted(found) == [8, 1000]


@pytest.mark.parametrize("page", [1000, 3])  # ticks that are read at once
def test_a_micro_batch_counts_events_where_they_are(feed, start, slow, monkeypatch, page):
    monkeypatch.setattr("pgqpy.tick_sizes.PAGE", page)
    stream = start(maxEventsPerTrigger=100).begin()
    for _ in range(10):
        slow.execute(INSERT, [1600])
        feed.insert("quick")
    slow.commit()
    feed.insert("last")
    feed.insert("later")
    assert [len(stream.run()) for _ in range(4)] == [10, 16_001, 1, 0]


def snapshots(*ticks):
    now = datetime.now(timezone.utc)
    return [TickInfo(number, now, text, seq, None) for number, (text, seq) in enumerate(ticks)]


def test_only_transactions_that_may_hold_many_events_are_counted():
    """Transaction 20 had the time to take many ids, 60 a few, 10 any: it is from before."""
    ticks = snapshots(
        ("10:15:10", 0),
        ("15:15:", 1),
        ("20:25:20", 2),
        ("20:26:20", LEAST),
        ("60:70:60", LEAST + 10),
        ("90:90:", LEAST + 20),
    )
    found = late_transactions(ticks, LEAST)
    assert found[10] == 0
    assert found[20] == 3
    assert 60 not in found
    assert found[26] == 3  # from xmax on, a snapshot does not say what is open
    assert 15 not in found


def test_events_are_moved_from_the_ticks_of_their_ids_to_the_tick_that_sees_them():
    found = [Count(20, 0, 5, 90, 99), Count(20, 1, 30, 101, 139), Count(7, 3, 50, 151, 200)]
    assert estimate([100, 140, 150, 200], found, {20: 1}, {2: [(3, 50)]}) == [
        TickSize((IdRange(101, 141, 10),)),
        TickSize((IdRange(141, 151, 10), IdRange(90, 100, 5), IdRange(101, 140, 30)), ((3, 50),)),
        TickSize(()),
    ]
