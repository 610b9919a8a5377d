"""Cancelled events: hidden from the consumers that have not had them, and from nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.cancelling import cancel, retry, skip, states
from tests.guarantees.sessions import refused
from tests.guarantees.stages import DROP, commit_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

RANGE = "select ev_data from pgq.get_tick_events('q', %s, %s)"
PIN = "select pgq.pin_range('q', 'c', %s, %s)"
ADVANCE = "select pgq.advance_subscription('q', 'c', %s, %s)"


def test_event_is_hidden_from_those_that_have_not_had_it(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    first, second = db.main.insert("a"), db.main.insert("b")
    db.main.tick()
    assert db.main.drain("d") == ["a", "b"]
    assert cancel(db.main, first, 99) == {
        (first, "c"): "cancelled",
        (first, "d"): "delivered",
        (99, "c"): "unknown",
        (99, "d"): "unknown",
    }
    assert skip(db.main, "c", second, second) == {(second, "c"): "cancelled"}
    third = db.main.insert("c")
    assert skip(db.main, "d", third) == {(third, "d"): "cancelled"}
    assert db.main.deliver() == ["c"]
    assert db.main.drain("d") == []
    assert cancel(db.main) == {}


def test_open_batch_does_not_change(db: Database) -> None:
    db.queue()
    first = db.main.insert("a")
    db.main.tick()
    second = db.main.insert("b")
    db.main.tick()
    batch = db.main.next()
    assert states(db.main, first, second) == ["delivered", "cancelled"]
    assert db.main.data(batch) == ["a"]
    assert db.main.next() == batch
    assert db.main.finish(batch) == 1
    assert db.main.drain() == []
    assert states(db.main, first, second) == ["delivered", "cancelled"]


def test_rolled_back_cancellation_hides_nothing(db: Database) -> None:
    db.queue()
    event = db.main.insert("a")
    db.main.begin()
    assert states(db.main, event) == ["cancelled"]
    db.main.rollback()
    db.main.begin()
    own = db.main.insert("b")
    db.main.run("savepoint s")
    assert states(db.main, event) == ["cancelled"]
    db.main.run("rollback to s")
    assert states(db.main, own) == ["cancelled"]
    db.main.commit()
    assert db.main.deliver() == ["a"]


def test_event_of_a_late_transaction_is_found_and_hidden(db: Database) -> None:
    db.queue()
    late, later = db.open(), db.open()
    late.begin()
    one = late.insert("late")
    later.begin()
    later.one("select txid_current()")  # its events get ids that no tick before knows
    db.main.tick_after("a")
    two = later.insert("later")
    kept = later.insert("kept")
    assert states(db.main, one, two) == ["unknown", "unknown"]
    late.commit()
    later.commit()
    for _ in range(2):
        db.main.tick_after("a")
    assert states(db.main, one) == ["cancelled"]
    assert states(db.main, two) == ["cancelled"]
    assert sorted(db.main.drain()) == ["a", "a", "a", "kept"]
    assert states(db.main, kept) == ["delivered"]


def test_tick_that_is_older_than_the_event_and_commits_after_the_cancellation(
    db: Database,
) -> None:
    db.queue()
    ticker = db.open()
    ticker.begin()
    ticker.tick()
    event = db.main.insert("a")
    assert states(db.main, event) == ["cancelled"]
    ticker.commit()
    assert db.main.deliver() == []


def test_stage_is_hidden_before_and_after_its_release(db: Database) -> None:
    db.queue()
    first = stage(db.main, "a", "b", writer="v")
    dropped = stage(db.main, "x", writer="w")
    ids = [row[0] for row in db.main.all("select ev_id from pgq.event_1 order by 1")]
    assert dropped
    assert db.main.deliver() == []
    assert states(db.main, ids[0]) == ["cancelled"]
    db.main.tick()
    assert commit_stage(db.main, first, writer="v")
    assert db.main.one(DROP, "w") == 1
    assert states(db.main, ids[2]) == ["unknown"]
    db.main.tick()
    start, end = db.main.all("select min(tick_id), max(tick_id) from pgq.get_tick_info('q')")[0]
    assert sorted(db.main.all(RANGE, start, end)) == [("a",), ("b",)]
    assert db.main.drain() == ["b"]
    assert states(db.main, *ids) == ["cancelled", "delivered", "unknown"]


def test_retried_copy_is_removed_and_hidden(db: Database) -> None:
    db.queue()
    waits, moved, dead = (db.main.insert(data) for data in "abc")
    db.main.tick()
    batch = db.main.next()
    retry(db.main, batch, "a", "b")
    (event,) = [each for each in db.main.events(batch) if each.id == dead]
    died = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['x'])"
    assert db.main.one(died, batch, event.id, event.txid) == 1
    assert db.main.finish(batch) == 1
    assert states(db.main, waits, dead) == ["cancelled", "delivered"]
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    assert states(db.main, moved, dead) == ["cancelled", "delivered"]
    assert db.main.drain() == []
    assert db.main.one("select count(*) from pgq.dead_event") == 1
    db.main.one("select pgq.register_consumer_at('q', 'c', 1)")
    merged = db.main.one("select batch_id from pgq.next_batch_custom('q', 'c', null, 3, null)")
    assert db.main.data(merged) == ["a", "b", "c"], "what it was given comes again"


def test_reader_of_ticks_gets_what_its_ranges_have(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    first, second = db.main.insert("a"), db.main.tick()
    event = db.main.insert("b")
    third = db.main.tick()
    assert db.main.one(PIN, second - 1, second) == 1
    assert cancel(db.main, first, event) == {
        (first, "c"): "by ticks",
        (event, "c"): "by ticks",
        (first, "d"): "cancelled",
        (event, "d"): "cancelled",
    }
    assert db.main.one(ADVANCE, second - 1, second) == 1
    assert cancel(db.main, first, event)[first, "c"] == "delivered"
    assert cancel(db.main, first, event)[event, "c"] == "by ticks"
    assert db.main.all(RANGE, second - 1, third) == [("a",), ("b",)]
    assert db.main.drain() == ["b"], "nothing was hidden from it"


def test_stream_that_runs_and_has_not_read_yet_reads_by_ticks(db: Database) -> None:
    db.queue()
    event = db.main.insert("a")
    assert db.main.one(ADVANCE, 1, 1) == 0
    assert states(db.main, event) == ["by ticks"]
    assert db.main.one("select pgq.register_consumer_at('q', 'c', 1)") == 0
    assert states(db.main, event) == ["by ticks"], "it was moved while it does not run"


def test_run_that_begins_where_a_stream_ended_is_no_reader_of_ticks(db: Database) -> None:
    db.queue()
    event = db.main.insert("a")
    db.main.one(ADVANCE, 1, 1)
    db.main.tick_after("b")
    db.main.run("select pgq.open_batch('q', 'c')")
    db.main.finish(db.main.next())
    assert states(db.main, event) == ["delivered"]


def test_what_is_no_event_queue_or_consumer_is_refused(db: Database) -> None:
    db.queue()
    for ids in ("null", "array[1, null]"):
        with refused("PQ009"):
            db.main.one(f"select pgq.cancel_event('q', {ids}::bigint[])")
    with refused("PQ001"):
        db.main.one("select pgq.cancel_event('nope', '{1}')")
    with refused("PQ002"):
        db.main.one("select pgq.skip_event('q', 'nobody', '{1}')")
    db.main.one("select pgq_coop.register_subconsumer('q', 'd', '1')")
    with refused("PQ020"):
        db.main.one("select pgq.skip_event('q', 'd.1', '{1}')")


def test_consumer_that_comes_later_does_not_get_it(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    first = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    had, hidden = db.main.insert("a"), db.main.insert("b")
    cancel(db.main, hidden)
    db.main.one("select pgq.unregister_consumer('q', 'd')")
    db.main.one("select pgq.register_consumer('q', 'd')")
    assert db.main.deliver() == ["a"]
    assert cancel(db.main, had) == {(had, "c"): "delivered", (had, "d"): "cancelled"}
    db.main.one("select pgq.register_consumer_at('q', 'e', %s)", first)
    db.main.insert("c")
    assert db.main.deliver("e") == ["c"]
    assert db.main.drain("d") == ["c"]
    db.main.one("select pgq.register_consumer('q', 'f')")
    db.main.one("select pgq.register_consumer_at('q', 'f', %s)", first)  # moved back
    assert db.main.drain("f") == ["c"]


def test_event_of_a_queue_without_consumers_is_hidden(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    event = db.main.insert("a")
    told = db.main.all("select * from pgq.cancel_event('q', %s)", [event, 99])
    assert told == [(event, None, "cancelled"), (99, None, "unknown")]
    db.main.one("select pgq.register_consumer('q', 'c')")
    assert db.main.deliver() == []
