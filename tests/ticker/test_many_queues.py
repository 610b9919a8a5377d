"""Ticks of new events and idle ticks, with more queues than one poll or step includes."""

from __future__ import annotations

import pytest

from pgqpy import calls
from pgqpy.ticker.statements import POLL, PULSE, QUEUES, Statements
from pgqpy.ticker.tick import NOTHING, DueTicks, LastTicks, TickState, tick
from tests.ticker.harness import NAMES

POLLS = 20  # more than it takes to go round
LATER = 1e6  # seconds: every back-off is over


class Recorded(Statements):
    """The loop's statements; records the ranges of queues that each poll includes."""

    def __init__(self, client):
        super().__init__(client)
        self.clear()

    def clear(self):
        self.lists, self.pulses, self.ranges = 0, [], []

    def run(self, query, *parameters):
        if query == PULSE:
            self.pulses.append(parameters[:2])
        elif query == POLL and parameters[1:3] == (b"1", b"0"):
            self.lists += 1
        elif query == POLL:
            self.ranges.append(parameters[1:3])
        return super().run(query, *parameters)


class Loop:
    """The tick duty with its memory; every poll is a second after the last."""

    def __init__(self, client):
        self.statements = Recorded(client)
        rows = self.statements.run(QUEUES)
        self.state = TickState(LastTicks([int(row[0]) for row in rows]))
        self.now = 100.0

    def poll(self, **at):
        self.now += 1.0
        return tick(self.statements, self.state, now=at.get("now", self.now))

    def settle(self):
        """Poll until nothing is left to poll; return what was ticked, and failures."""
        ticks, failures = [], []
        polls = 0
        while polls < POLLS or self.state.last_ticks.stale:
            polls += 1
            done = self.poll()
            ticks += [queue for queue, _ in done.ticks]
            failures += [failure.queue for failure in done.failures]
        return ticks, failures


@pytest.fixture
def loop(queues, tick_client):
    loop = Loop(tick_client)
    assert sorted(loop.settle()[0]) == queues
    return loop


def test_event_on_any_queue_is_ticked_once(loop, client):
    for name in NAMES:
        client.insert_event(name, "t", "1")
        assert loop.settle() == ([name], [])


def test_events_on_all_queues_are_ticked_once(loop, client):
    for name in NAMES:
        client.insert_event(name, "t", "1")
    ticks, failures = loop.settle()
    assert (sorted(ticks), failures) == (NAMES, [])


def test_only_the_snapshot_is_read_while_nothing_is_written(loop):
    loop.statements.clear()
    for _ in range(POLLS):
        assert loop.poll() is NOTHING
    assert loop.statements.lists == POLLS
    assert (loop.statements.pulses, loop.statements.ranges) == ([], [])


def test_after_a_write_elsewhere_every_range_is_polled_once(loop, connection):
    connection.execute("create table app (id int)")
    loop.statements.clear()
    assert loop.settle() == ([], [])
    assert sorted(loop.statements.pulses) == sorted(loop.state.last_ticks.bounds())
    assert loop.statements.ranges == []


def test_only_the_queues_of_the_range_that_has_changed_are_polled(loop, client):
    loop.statements.clear()
    client.insert_event("q08", "t", "1")
    assert loop.settle() == (["q08"], [])
    assert set(loop.statements.ranges) == {(b"7", b"9")}


def test_a_hot_queue_is_no_reason_to_poll_its_range(loop, client, connection):
    loop.state.ticked(8, now=LATER)
    connection.execute("create table app (id int)")
    assert loop.settle() == ([], [])
    loop.statements.clear()
    client.insert_event("q08", "t", "1")
    assert [queue for queue, _ in loop.poll().ticks] == ["q08"]
    loop.state.ticked(8, now=LATER)
    assert loop.settle() == ([], [])
    assert loop.statements.pulses
    assert loop.statements.ranges == []


def test_every_poll_includes_a_queue_with_recent_events(loop, client):
    client.insert_event("q07", "t", "1")
    assert loop.settle()[0] == ["q07"]
    loop.state.ticked(7, now=1000.0)
    client.insert_event("q07", "t", "2")
    loop.state.last_ticks.stale = 0
    loop.state.range_at = 1000.0  # no range is polled now
    assert [queue for queue, _ in loop.poll(now=1000.0).ticks] == ["q07"]


def test_writer_that_ends_when_its_queue_is_not_hot_any_more_is_ticked(loop, client, connect):
    with connect(autocommit=False) as app:
        app.execute("select pgq.insert_event('q05', 't', '1')")
        client.insert_event("q05", "t", "makes the tick that counts both")
        assert loop.settle() == (["q05"], [])
        assert not loop.state.hot_ids(loop.now)
        client.insert_event("q09", "t", "a write that shows")
        assert loop.settle() == (["q09"], [])
        app.commit()
    assert loop.settle() == (["q05"], [])
    assert loop.settle() == ([], [])


def test_created_queues_are_ticked_and_dropped_ones_forgotten(loop, client):
    new = [f"new{number}" for number in range(10)]
    for name in new:
        client.create_queue(name)
    assert sorted(loop.settle()[0]) == new
    client.drop_queue("q03")
    client.insert_event("new7", "t", "1")
    assert loop.settle() == (["new7"], [])
    ids = {
        each
        for _ in loop.state.last_ticks.bounds()
        for each in loop.state.last_ticks.next_range().last_ticks
    }
    assert 3 not in ids
    assert len(ids) == len(NAMES) - 1 + len(new)


def test_a_renamed_queue_is_ticked_by_its_new_name(loop, client):
    client.call(calls.admin.rename_queue("q03", "renamed"))
    client.insert_event("renamed", "t", "1")
    assert loop.settle() == (["renamed"], [])


def test_queue_that_fails_harms_no_other(loop, client, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    for name in NAMES:
        client.insert_event(name, "t", "1")
    ticks, failures = loop.settle()
    assert sorted(ticks) == [name for name in NAMES if name != "q04"]
    assert set(failures) == {"q04"}
    client.insert_event("q05", "t", "of the same range")
    client.insert_event("q11", "t", "of another")
    assert sorted(loop.settle()[0]) == ["q05", "q11"]
    connection.execute("alter sequence pgq.away rename to event_4_tick_seq")
    loop.state.range_at = LATER  # no range is polled now
    done = loop.poll(now=LATER)
    assert ([queue for queue, _ in done.ticks], done.recovered) == (["q04"], ["q04"])


def test_others_are_ticked_together_while_one_fails(loop, client, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    client.insert_event("q04", "t", "1")
    assert set(loop.settle()[1]) == {"q04"}
    for name in ("q01", "q02", "q03"):
        client.insert_event(name, "t", "1")
    assert sorted(loop.settle()[0]) == ["q01", "q02", "q03"]
    transactions = connection.execute(
        "select distinct tick.xmin::text from pgq.tick join lateral"
        " (select tick_queue, max(tick_id) as tick_id from pgq.tick group by 1) as last"
        " using (tick_queue, tick_id) where tick_queue < 4"
    ).fetchall()
    assert len(transactions) == 1


def test_queue_whose_drop_is_left_open_holds_up_no_other(loop, client, connect):
    with connect(autocommit=False) as admin:
        admin.execute("select pgq.drop_queue('q05')")
        for name in ("q04", "q06", "q12"):
            client.insert_event(name, "t", "1")
        ticks, failures = loop.settle()
        assert (sorted(ticks), failures) == (["q04", "q06", "q12"], [])
        admin.rollback()
    client.insert_event("q05", "t", "1")
    assert loop.settle() == (["q05"], [])


def test_poll_locks_its_own_queues_only(loop):
    statements = loop.statements
    (first, last), *_ = loop.state.last_ticks.bounds()
    connection = statements.connection
    with connection.transaction():
        statements.run(POLL, b"", first, last, b"{9}", b"{}", b"{}", b"{}", b"{NULL}")
        locked = connection.execute(
            "select objid::int from pg_locks where pid = pg_backend_pid()"
            " and locktype = 'advisory' and classid = 7366515 order by 1"
        ).fetchall()
    assert locked == [(1,), (2,), (3,), (9,)]


@pytest.fixture
def due(queues, client, monkeypatch):
    """A round of idle ticks over all queues, of which each is due."""
    monkeypatch.setattr("pgqpy.ticker.tick.TOGETHER", 2)
    return DueTicks(period=1.0)


def round_of(due, statements):
    """Return the ticks of each step of a round, and the failures."""
    known = LastTicks(range(1, len(NAMES) + 1))
    steps, failures = [], []
    while True:
        done = due.step(statements, known, now=5.0)
        steps.append([queue for queue, _ in done.ticks])
        failures += [failure.queue for failure in done.failures]
        if not due.working:
            return steps, failures


def test_all_due_queues_are_ticked_a_few_in_each_step(due, statements):
    steps, failures = round_of(due, statements)
    assert sorted(queue for step in steps for queue in step) == NAMES
    assert max(map(len, steps)) == 2
    assert failures == []
    assert due.step(statements, LastTicks(), now=5.5) is NOTHING


def test_due_queues_of_a_step_are_ticked_in_one_transaction(due, statements, connection):
    # The transaction ids of the rows: other databases of the server take ids meanwhile.
    transactions = "select count(distinct xmin::text) from pgq.tick_recent"
    (before,) = connection.execute(transactions).fetchone()
    steps, _ = round_of(due, statements)
    ticking = [step for step in steps if step]
    assert connection.execute(transactions).fetchone() == (before + len(ticking),)


def test_due_queue_that_failed_and_was_dropped_fails_no_more(due, statements, client, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    assert round_of(due, statements)[1] == ["q04"]
    connection.execute("alter sequence pgq.away rename to event_4_tick_seq")
    client.drop_queue("q04")
    for _ in NAMES:
        due.step(statements, LastTicks(range(1, 15)), now=LATER)
    assert not due.failing


def test_due_queue_that_fails_harms_no_other(due, statements, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    steps, failures = round_of(due, statements)
    assert sorted(queue for step in steps for queue in step) == [n for n in NAMES if n != "q04"]
    assert failures == ["q04"]
    assert list(due.failing) == ["q04"]
    connection.execute("alter sequence pgq.away rename to event_4_tick_seq")
    while due.failing:
        done = due.step(statements, LastTicks(range(1, 15)), now=LATER)
    assert [queue for queue, _ in done.ticks] in (["q04"], [])
