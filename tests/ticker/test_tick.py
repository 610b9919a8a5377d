"""The function `tick`, called on a real database."""

from __future__ import annotations

import pytest

from pgqpy.ticker.statements import Statements
from pgqpy.ticker.tick import NOTHING, Ticked, TickState, tick

LATER = 1e6  # seconds: every back-off is over


class Loop:
    """The tick duty with its memory."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements
        self.state = TickState()
        self.now = 0.0

    def poll(self) -> Ticked:
        return tick(self.statements, self.state, now=self.now)

    def ticked(self) -> list[str]:
        """Return the queues that a poll ticks; nothing may fail."""
        done = self.poll()
        assert not done.failures
        return [queue for queue, _ in done.ticks]

    def settle(self) -> None:
        """Poll until nothing is due."""
        while self.poll().ticks:
            pass


@pytest.fixture
def loop(client, statements):
    client.create_queue("orders")
    client.create_queue("other")
    client.register_consumer("orders", "billing")
    loop = Loop(statements)
    loop.settle()
    return loop


def outcome(done):
    """Return the queues that were ticked, and the failures."""
    failures = [(failure.queue, failure.error.sqlstate) for failure in done.failures]
    return [queue for queue, _ in done.ticks], failures


def batch_ids(client):
    """Finish the consumer's next batches; return the events they held."""
    ids = []
    while batch := client.next_batch("orders", "billing"):
        ids += [event.id for event in client.get_batch_events(batch)]
        client.finish_batch(batch)
    return ids


def test_new_event_is_ticked_once(loop, client):
    event = client.insert_event("orders", "t", "1")
    assert loop.ticked() == ["orders"]
    assert loop.ticked() == []
    assert batch_ids(client) == [event]


def test_polling_changes_nothing(loop, connection):
    loop.poll()
    before = connection.execute("select pg_current_snapshot()::text").fetchone()
    for _ in range(10):
        assert loop.poll() is NOTHING
    assert connection.execute("select pg_current_snapshot()::text").fetchone() == before


def test_event_of_open_transaction_is_ticked_when_it_commits(loop, client, connect):
    with connect(autocommit=False) as app:
        (event,) = app.execute("select pgq.insert_event('orders', 't', '1')").fetchone()
        client.insert_event("orders", "t", "makes the tick that counts both")
        assert loop.ticked() == ["orders"]
        assert event not in batch_ids(client)
        assert loop.ticked() == []
        app.commit()
    assert loop.ticked() == ["orders"]
    assert batch_ids(client) == [event]
    assert loop.ticked() == []


def test_event_of_transaction_without_xid_yet_is_ticked_when_it_commits(loop, client, connect):
    """A producer that was held up between taking an id and writing its row."""
    with connect(autocommit=False) as app:
        (event,) = app.execute("select nextval('pgq.event_1_id_seq')").fetchone()
        client.insert_event("orders", "t", "makes the tick that counts both")
        assert loop.ticked() == ["orders"]
        app.execute("insert into pgq.event_1_0 (ev_id, ev_time) values (%s, now())", [event])
        assert loop.ticked() == []
        app.commit()
    assert loop.ticked() == ["orders"]
    assert event in batch_ids(client)


def test_event_of_prepared_transaction_is_ticked_when_it_commits(loop, client, connect, connection):
    app = connect(autocommit=False)
    xid = app.xid(1, "pgqpy", "ticker")
    app.tpc_begin(xid)
    (event,) = app.execute("select pgq.insert_event('orders', 't', '1')").fetchone()
    client.insert_event("other", "t", "a write that shows")
    assert sorted(loop.ticked()) == ["orders", "other"]
    app.tpc_prepare()
    loop.settle()
    assert batch_ids(client) == []
    connect(autocommit=False).tpc_commit(xid)
    assert loop.ticked() == ["orders"]
    assert batch_ids(client) == [event]


def test_rolled_back_event_costs_one_tick_at_most(loop, client, connect):
    with connect(autocommit=False) as app:
        app.execute("select pgq.insert_event('orders', 't', '1')")
        client.insert_event("other", "t", "a write that shows")
        loop.settle()
        app.rollback()
    loop.settle()
    assert loop.ticked() == []
    assert batch_ids(client) == []


def test_open_transaction_is_no_reason_to_tick_again_and_again(loop, client, connect, connection):
    connection.execute("create table app (id int)")
    with connect(autocommit=False) as app:
        app.execute("select pgq.insert_event('orders', 't', '1')")
        client.insert_event("orders", "t", "2")
        loop.settle()
        for number in range(3):
            connection.execute("insert into app values (%s)", [number])
            assert loop.ticked() == []


def test_transactions_of_others_are_not_waited_for(loop, client, connect, connection):
    connection.execute("create table app (id int)")
    with connect(autocommit=False) as app:
        app.execute("insert into app values (1)")
        client.insert_event("orders", "t", "1")
        assert loop.ticked() == ["orders"]
        app.commit()
    assert loop.ticked() == []


def test_paused_queue_is_ticked_again_when_it_goes_on(loop, client):
    client.set_queue_config("orders", "ticker_paused", True)
    client.insert_event("orders", "t", "1")
    assert loop.ticked() == []
    client.set_queue_config("orders", "ticker_paused", False)
    assert loop.ticked() == ["orders"]


def test_dropped_queue_is_forgotten_and_may_come_back(loop, client):
    client.drop_queue("orders", force=True)
    assert loop.ticked() == []
    client.create_queue("orders")
    assert loop.ticked() == ["orders"]


def test_one_notification_for_each_tick(loop, client, connect):
    listener = connect()
    listener.execute('listen "pgq_orders"')
    client.insert_event("orders", "t", "1")
    ((queue, tick_id),) = loop.poll().ticks
    (notification,) = listener.notifies(timeout=30, stop_after=1)
    assert (queue, notification.payload) == ("orders", tick_id)
    assert list(listener.notifies(timeout=0)) == []


def test_queue_whose_row_is_locked_does_not_stop_the_others(loop, client, connect):
    with connect(autocommit=False) as admin:
        admin.execute("select from pgq.queue where queue_name = 'orders' for update")
        client.insert_event("orders", "t", "1")
        client.insert_event("other", "t", "1")
        assert outcome(loop.poll()) == (["other"], [("orders", "55P03")])
    loop.now = LATER
    assert loop.ticked() == ["orders"]


def test_queue_whose_sequence_is_locked_does_not_stop_the_others(loop, client, connect):
    event = client.insert_event("orders", "t", "1")
    with connect(autocommit=False) as admin:
        admin.execute("alter sequence pgq.event_1_id_seq cache 1")
        client.insert_event("other", "t", "1")
        assert outcome(loop.poll()) == (["other"], [("orders", "55P03")])
        client.create_queue("new")
        assert sorted(loop.ticked()) == ["new"]  # and nothing fails: orders is left alone
        loop.now = LATER
        assert outcome(loop.poll())[1] == [("orders", "55P03")]
        admin.rollback()
    loop.now = 2 * LATER
    done = loop.poll()
    assert [queue for queue, _ in done.ticks] == ["orders"]
    assert done.recovered == ["orders"]
    assert batch_ids(client) == [event]
    assert not loop.state.locked


def test_queue_that_was_locked_and_is_dropped_fails_no_more(loop, client, connect):
    with connect(autocommit=False) as admin:
        admin.execute("alter sequence pgq.event_1_id_seq cache 1")
        client.insert_event("other", "t", "1")
        assert loop.poll().failures
        admin.execute("select pgq.drop_queue('orders', true)")
        admin.commit()
    loop.now = LATER
    loop.poll()
    assert not loop.state.failing
    assert not loop.state.locked


def test_names_are_passed_as_they_are(client, statements):
    names = ["it's", 'say "hi"', "back\\slash", "%s", "{brace}", "ö€😀", " blank "]
    for name in names:
        client.create_queue(name)
    loop = Loop(statements)
    assert sorted(loop.ticked()) == sorted(names)
    for name in names:
        client.insert_event(name, "t", "1")
    assert sorted(loop.ticked()) == sorted(names)
    assert loop.ticked() == []
