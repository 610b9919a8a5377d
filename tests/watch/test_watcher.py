"""What a poll at a real database finds, and what it may not see; rates, pauses and counts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.watch import Watcher
from pgqpy.watch.snapshot import Count, total
from pgqpy.watch.watcher import Reached, SlowClock, pause_after, rates
from tests.support.hostile import lay_trap, trapped
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.testing import EmbeddedServer
    from pgqpy.watch import ConsumerState, QueueState, Snapshot

    Connection = psycopg.Connection[Any]
    Connect = Callable[..., Connection]

HOLD_TICKER = "select pg_advisory_lock(7366513, 0), pg_advisory_lock_shared(7366513, 3)"
STAND_BY = "select pg_advisory_lock_shared(7366513, 3)"


@pytest.fixture
def watcher(dsn: str) -> Iterator[Watcher]:
    with Watcher(dsn) as watcher:
        yield watcher


@pytest.fixture
def guest(login: Callable[..., str], dsn: str) -> str:
    """The DSN of a login without any role of the queue."""
    return psycopg.conninfo.make_conninfo(dsn, user=login())


def orders(snapshot: Snapshot) -> QueueState:
    found = snapshot.queue("orders")
    assert found is not None
    return found


def billing(snapshot: Snapshot) -> ConsumerState:
    found = snapshot.consumer("orders", "billing")
    assert found is not None
    return found


@pytest.mark.usefixtures("new_orders")
def test_a_look_finds_what_waits_and_what_is_dead(
    watcher: Watcher, client: pgqpy.Client, connection: Connection
) -> None:
    client.register_consumer("orders", "audit")
    client.insert_events("orders", [("placed", str(number)) for number in range(10)])
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    first, second, *_ = client.get_batch_events(batch)
    client.event_dead(batch, [(first, "no such customer")])
    client.event_retry(batch, second, 600)
    client.insert_events("orders", [("placed", "later")] * 3, delay=600)
    found = watcher.poll()
    assert found.no_answer is None
    assert found.database == connection.info.dbname
    queue, consumer = orders(found), billing(found)
    assert (queue.consumers, queue.pending_events, queue.last_tick) == (2, 10, batch.tick_id)
    assert [str(each) for each in (queue.dead_events, queue.retry_events)] == ["1", "1"]
    assert (str(queue.delayed_events), queue.delayed_overdue) == ("3", None)
    assert (str(consumer.dead_events), str(consumer.retry_events)) == ("1", "1")
    assert (consumer.pending_events, consumer.batch) == (10, batch.id)
    assert queue.total_bytes is not None
    assert queue.total_bytes > 0
    lags = [each.lag for each in found.consumers if each.lag is not None]
    assert (queue.state, queue.worst_lag) == ("no ticker", max(lags))
    assert [each.name for each in found.consumers_of("orders")] == ["audit", "billing"]


@pytest.mark.usefixtures("new_orders")
def test_the_second_look_tells_rates(watcher: Watcher, client: pgqpy.Client) -> None:
    assert billing(watcher.poll()).events_per_second is None
    client.insert_events("orders", [("placed", "1")] * 10)
    client.tick_queue("orders")
    second = watcher.poll()
    assert orders(second).events_per_second
    assert billing(second).events_per_second == 0
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    client.finish_batch(batch)
    third = watcher.poll()
    assert orders(third).events_per_second == 0
    assert billing(third).events_per_second


@pytest.mark.usefixtures("new_orders")
def test_counts_stop_at_ten_thousand(watcher: Watcher, connection: Connection) -> None:
    connection.execute("""
        insert into pgq.dead_event
            (ev_queue, ev_owner, ev_id, ev_txid, ev_time, dead_reason, dead_tries)
        select sub_queue, sub_id, n, 1, now(), 'reason', 1
        from pgq.registration, generate_series(1, 10001) n
    """)
    assert str(orders(watcher.poll()).dead_events) == "10,000+"


@pytest.mark.usefixtures("new_orders")
def test_findings_and_sizes_are_not_made_anew_at_each_poll(
    watcher: Watcher, connection: Connection
) -> None:
    first = watcher.poll()
    connection.execute("update pgq.queue set queue_disable_insert = true")
    second = watcher.poll()
    assert second.examined == first.examined
    assert "paused" not in {each.check for each in second.problems}
    third = watcher.poll(fully=True)
    assert third.examined is not None
    assert "paused" in {each.check for each in third.problems}
    levels = [each.level for each in third.findings]
    assert levels == sorted(levels, key=["fail", "warn", "skipped", "ok"].index)


@pytest.mark.usefixtures("new_orders")
def test_the_data_come_before_findings_and_sizes(watcher: Watcher) -> None:
    data, checked, sized = watcher.polls()
    assert (data.examined, data.findings, data.checking) == (None, (), True)
    assert (orders(data).consumers, orders(data).total_bytes) == (1, None)
    assert checked.findings
    assert (checked.taken, checked.checking) == (data.taken, False)
    assert orders(sized).total_bytes
    assert [each.checking for each in watcher.polls()] == [False]


@pytest.mark.usefixtures("new_orders")
def test_the_ticker_daemons_and_the_state_of_a_queue(
    watcher: Watcher, client: pgqpy.Client, connect: Connect
) -> None:
    active, standby = connect(application_name="first"), connect(application_name="second")
    standby.execute(STAND_BY)
    assert [each.active for each in watcher.poll().tickers] == [False]
    active.execute(HOLD_TICKER)
    found = watcher.poll()
    assert [(each.application, each.active) for each in found.tickers] == [
        ("first", True),
        ("second", False),
    ]
    assert orders(found).state == "ok"
    client.set_queue_config("orders", "ticker_paused", "true")
    assert orders(watcher.poll()).state == "paused"


def test_a_shared_consumer_has_its_events_in_flight_and_its_holders(
    watcher: Watcher, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing", shared=True)
    client.insert_events("orders", [("placed", "1")] * 3)
    hold = calls.inflight.hold("orders", "billing", "app1:7", 60, keeps_session=False)
    claim = calls.inflight.claim("orders", "billing", 2, 60, client.call(hold), alone=True)
    assert client.call(claim)
    found = watcher.poll()
    consumer = billing(found)
    assert (consumer.mode, consumer.processes, consumer.in_flight) == ("shared", 1, 3)
    (holder,) = found.holders_of("orders", "billing")
    assert (holder.name, holder.events) == ("app1:7", 2)


@pytest.mark.usefixtures("new_orders")
def test_a_session_that_was_ended_is_opened_again(watcher: Watcher, connection: Connection) -> None:
    first = watcher.poll()
    ended = connection.execute("""
        select pg_terminate_backend(pid, 10000) from pg_stat_activity
        where application_name = 'pgqpy watch' and datname = current_database()
    """)
    assert ended.fetchall() == [(True,)]
    lost = watcher.poll()
    assert lost.no_answer is not None
    assert (lost.no_answer.connected, lost.taken, lost.queues) == (False, first.taken, first.queues)
    again = watcher.poll()
    assert again.no_answer is None
    assert again.taken is not None
    assert first.taken is not None
    assert again.taken > first.taken
    assert again.examined != first.examined


def test_a_server_that_was_stopped_shows_since_when_and_comes_back(
    own_server: EmbeddedServer,
) -> None:
    dsn = own_server.dsn("postgres")
    with psycopg.connect(dsn, autocommit=True) as connection:
        pgqpy.install.install(connection)
    with Watcher(dsn) as watcher:
        with pgqpy.connect(dsn) as client:
            client.create_queue("orders")
        assert orders(watcher.poll()).consumers == 0
        own_server.stop("immediate")
        lost, later = watcher.poll(), watcher.poll()
        assert lost.no_answer is not None
        assert later.no_answer is not None
        assert later.no_answer.since == lost.no_answer.since
        assert "cannot connect" in later.no_answer.what
        assert later.queues == lost.queues != ()
        assert watcher.pause == 2.0
        own_server.start()
        assert eventually(watcher.poll).no_answer is None


def test_a_database_that_never_answered_has_no_data() -> None:
    with Watcher("host=/nonexistent password=secret") as watcher:
        found = watcher.poll()
    assert found.taken is None
    assert found.no_answer is not None
    assert "secret" not in found.no_answer.what


def test_a_database_without_the_schema_says_what_to_do(empty_dsn: str) -> None:
    with Watcher(empty_dsn) as watcher:
        found = watcher.poll()
    assert found.no_answer is not None
    assert found.no_answer.connected
    assert "install" in found.no_answer.what


@pytest.mark.usefixtures("new_orders")
def test_a_locked_table_is_told_and_the_data_come_again(watcher: Watcher, connect: Connect) -> None:
    watcher.poll()
    holder = connect(autocommit=False)
    holder.execute("lock table pgq.consumer in access exclusive mode")
    found = watcher.poll()
    assert found.no_answer is not None
    assert found.no_answer.connected
    assert "lock timeout" in found.no_answer.what
    holder.rollback()
    assert watcher.poll().no_answer is None


@pytest.mark.usefixtures("new_orders")
def test_a_login_without_any_role_sees_everything_unless_it_may_not(
    guest: str, connection: Connection
) -> None:
    with Watcher(guest) as watcher:
        found = watcher.poll()
    assert found.no_answer is None
    assert str(billing(found).dead_events) == "0"
    assert "skipped" in {each.level for each in found.findings}
    for function in ("get_consumer_counts(int)", "get_inflight(text, text)"):
        connection.execute(f"revoke execute on function pgq.{function} from public".encode())
    with Watcher(guest) as watcher:
        found = watcher.poll()
    assert found.no_answer is None
    assert (billing(found).dead_events, billing(found).inflight) == (None, None)
    assert orders(found).dead_events is None


def test_the_extension_pgq_has_fewer_answers(extension_dsn: str) -> None:
    with psycopg.connect(extension_dsn, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('orders')")
        connection.execute("select pgq.register_consumer('orders', 'billing')")
    with Watcher(extension_dsn) as watcher:
        found = watcher.poll()
    assert found.no_answer is None
    assert (orders(found).consumers, orders(found).dead_events) == (1, None)
    assert (billing(found).lag, billing(found).pending_events) == (timedelta(0), 0)


@pytest.mark.usefixtures("new_orders")
def test_it_reads_only_and_calls_no_function_of_another_schema(
    dsn: str, connection: Connection
) -> None:
    lay_trap(connection)
    before = trapped(connection)
    with Watcher(dsn) as watcher:
        assert watcher.poll().no_answer is None
        assert trapped(connection) == before
        client = watcher._client
        assert client is not None
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.insert_event("orders", "test", "data")


def test_a_rate_is_the_ids_between_two_looks() -> None:
    before = Reached(10.0, {("orders",): 100, ("orders", "billing"): 40, ("dropped",): 1})
    now = Reached(12.0, {("orders",): 300, ("orders", "billing"): 40, ("new",): 5})
    assert rates(before, now) == {("orders",): 100.0, ("orders", "billing"): 0.0}


def test_there_is_no_rate_at_the_first_look_nor_for_ids_that_went_back() -> None:
    now = Reached(12.0, {("orders",): 300})
    assert rates(None, now) == {}
    assert rates(now, now) == {}
    assert rates(Reached(11.0, {("orders",): 301}), now) == {}


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.01, 1.0), (0.1, 7.5)])
def test_a_look_that_takes_long_is_followed_by_a_long_pause(took: float, pause: float) -> None:
    assert pause_after(took) == pytest.approx(pause)


@pytest.mark.parametrize(("took", "due"), [(0.0, 71.0), (0.5, 161.5)])
def test_an_expensive_part_has_a_slower_clock(took: float, due: float) -> None:
    clock = SlowClock(60.0)
    assert clock.is_due(11.0)
    clock.done(11.0, 11.0 + took)
    assert not clock.is_due(due - 0.1)
    assert clock.is_due(due)


def test_no_more_than_two_percent_of_a_core_by_construction() -> None:
    polls, slow = 1.0 / pause_after(1.0), SlowClock(0.0)
    slow.done(0.0, 1.0)
    assert not slow.is_due(300.0)
    assert polls + 2 / 300 <= 0.02


def test_a_count_that_stopped_at_its_limit_says_so() -> None:
    assert str(Count.up_to(9_999)) == "9,999"
    assert str(Count.up_to(10_000)) == "10,000+"
    assert str(total([Count.up_to(10_000), Count(5)])) == "10,005+"
    assert total([Count(1), None]) is None
    assert not Count(0)
