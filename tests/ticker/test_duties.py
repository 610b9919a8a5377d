"""The periodic duties on a real database; /healthz lists those that fail each time."""

from __future__ import annotations

from threading import Thread

import psycopg
import pytest
from prometheus_client import generate_latest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import calls
from pgqpy.client import connect_as_tool
from pgqpy.errors import ConnectionFailed
from pgqpy.ticker import logs, periodic, session, tick
from pgqpy.ticker.duties import Maintained, maint, retry, sqlstate
from pgqpy.ticker.logs import Report
from pgqpy.ticker.metrics import TickerMetrics, read_gauges
from pgqpy.ticker.periodic import HISTORY_PERIOD, duties_of
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.tick import Failure, Ticked
from pgqpy.ticker.web import Health
from tests.support.waiting import eventually
from tests.ticker.harness import database_of, duty_of, extra_maint


def next_batch(client, queue):
    client.tick_queue(queue)
    return client.next_batch(queue, "billing")


def ids(client, batch):
    return [event.id for event in client.get_batch_events(batch)]


def put_through_retry(client, queue, count):
    """Have the consumer retry `count` events at once; return their ids."""
    client.insert_events(queue, (("t", str(number)) for number in range(count)))
    batch = next_batch(client, queue)
    assert client.batch_retry(batch, 0) == count
    found = ids(client, batch)
    client.finish_batch(batch)
    return found


def test_retry_moves_all_due_events(client, queue):
    expected = put_through_retry(client, queue, 1234)
    assert retry(client) == (1234, ())
    assert sorted(ids(client, next_batch(client, queue))) == sorted(expected)


def test_retries_that_cannot_be_moved_are_logged_and_counted(
    dsn, client, connection, queue, capsys, sessions
):
    put_through_retry(client, queue, 1)
    connection.execute("alter table pgq.event_1_0 add constraint no_retry check (ev_retry is null)")
    metrics = TickerMetrics()
    report = Report("shop", logs.make_logger(TickerSettings()), metrics)
    duty = duty_of(database_of(dsn, sessions, report=report), "retry")
    duty()
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "queue failing" in line]
    assert all(word in line for word in ("retry", queue, "no_retry", "23514"))
    shown = generate_latest(metrics.registry).decode()
    assert 'pgq_errors_total{database="shop",duty="retry"} 1.0' in shown
    duty()
    assert "queue failing" not in capsys.readouterr().err  # said a moment ago


def test_operation_that_fails_does_not_stop_the_others(client, connection, queue):
    connection.execute("create table public.calls (queue text)")
    works = "insert into public.calls values ($1); select 0"
    extra_maint(connection, broken="select 1 / 0", works=works)
    done = maint(client)
    assert [(op.func_name, sqlstate(exc)) for op, exc in done.failures] == [
        ("public.broken", "22012")
    ]
    assert connection.execute("select * from public.calls").fetchall() == [(queue,)]


def test_operation_is_called_again_while_it_returns_one(client, connection, queue):
    connection.execute("create sequence public.calls")
    three = "select case when nextval('public.calls') < 3 then 1 else 0 end"
    extra_maint(connection, three=three)
    maint(client)
    assert connection.execute("select last_value from public.calls").fetchone() == (3,)


def test_maint_vacuums_in_autocommit(client, connection):
    done = maint(client)
    assert not done.failures
    for (table,) in connection.execute("select * from pgq.maint_tables_to_vacuum()").fetchall():
        connection.execute("select %s::regclass", [table])


@pytest.mark.parametrize("gone", ["drop_queue('later', true)", "rename_queue('later', 'other')"])
@pytest.mark.parametrize(("named", "failures"), [("$1", []), ("'nope'", ["PQ001"])])
def test_only_a_queue_that_goes_between_two_steps_of_maint_is_no_failure(
    client, connection, queue, named, failures, gone
):
    client.create_queue("later")
    connection.execute(f"""
        create function public.drop_later(text) returns int language sql as
        $$ select pgq.{gone} from pgq.queue where queue_name = 'later' $$;
        create function public.use_queue(text) returns int language sql as
        $$ select pgq.maint_ticks({named})::int $$;
        update pgq.queue set queue_extra_maint = array['public.drop_later', 'public.use_queue']
         where queue_name = 'orders';
        update pgq.queue set queue_extra_maint = array['public.use_queue']
         where queue_name = 'later'""")
    done = maint(client)
    assert not client.get_queue_info("later")
    assert [sqlstate(exc) for op, exc in done.failures if op.func_arg == queue] == failures
    assert [str(exc) for op, exc in done.failures if op.func_arg == "later"] == []


def test_metrics_of_a_dropped_queue_are_gone_at_the_next_reading(dsn, client, queue, sessions):
    metrics = TickerMetrics()
    report = Report("shop", logs.make_logger(TickerSettings()), metrics)
    client.create_queue("gone")
    for name in (queue, "gone"):
        report.ticked(Ticked(ticks=[(name, "7")]))
    report.maintained(Maintained(rotated=[queue, "gone"]))
    client.drop_queue("gone")
    duty_of(database_of(dsn, sessions, report=report), "gauges")()
    shown = generate_latest(metrics.registry).decode()
    assert 'queue="gone"' not in shown
    for name in ("pgq_ticks_total", "pgq_rotations_total"):
        assert f'{name}{{database="shop",queue="{queue}"}} 1.0' in shown
    client.create_queue("gone")
    report.ticked(Ticked(ticks=[("gone", "8")]))
    shown = generate_latest(metrics.registry).decode()
    assert 'pgq_ticks_total{database="shop",queue="gone"} 1.0' in shown


def test_maint_stops_when_asked(client, connection, queue):
    connection.execute("create sequence public.calls")
    extra_maint(connection, counted="select nextval('public.calls')::int")
    maint(client, stopping=lambda: True)
    assert connection.execute("select is_called from public.calls").fetchone() == (False,)
    maint(client)
    assert connection.execute("select is_called from public.calls").fetchone() == (True,)


def test_ticker_counts_retry_and_dead_events_and_cannot_read_their_data(dsn, client, login, queue):
    client.register_consumer(queue, "audit")
    client.insert_events(queue, [("t", "later"), ("t", "never"), ("t", "never")])
    client.tick_queue(queue)
    batch = client.next_batch(queue, "billing")
    later, *never = client.get_batch_events(batch)
    client.call(calls.consume.event_retry_many(batch, [(later, 60)]))
    client.event_dead(batch, [(event, "bad") for event in never])
    with pgqpy.connect(make_conninfo(dsn, user=login("pgq_ticker"))) as counting:
        reading = read_gauges(counting)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            counting.connection.execute("select ev_data from pgq.dead_event")
    metrics = TickerMetrics()
    metrics.readings["shop"] = reading
    shown = generate_latest(metrics.registry).decode()
    for consumer, retries, dead in (("audit", 0, 0), ("billing", 1, 2)):
        labels = f'{{consumer="{consumer}",database="shop",queue="{queue}"}}'
        assert f"pgq_retry_events{labels} {retries}.0" in shown
        assert f"pgq_dead_events{labels} {dead}.0" in shown


def test_failed_queue_is_logged_to_work_again_once_at_its_next_tick(capsys):
    report = Report("shop", logs.make_logger(TickerSettings()), TickerMetrics())
    report.ticked(Ticked(failures=[Failure("orders", psycopg.DataError("broken"), 1)]))
    report.ticked(Ticked(ticks=[("orders", "7")]))
    report.ticked(Ticked(ticks=[("orders", "8")]))
    assert capsys.readouterr().err.count("queue works again") == 1


BLOCKED = "select count(*) > 0 from pg_locks where not granted and relation = 'pgq.queue'::regclass"


def test_reading_that_ends_after_the_loop_lost_its_session_is_removed(
    dsn, connection, connect, queue, sessions
):
    metrics, health = TickerMetrics(), Health("shop", role="active")
    report = Report("shop", logs.make_logger(TickerSettings()), metrics)
    duty = duty_of(database_of(dsn, sessions, health=health, report=report), "gauges")
    duty()
    assert any(family.samples for family in metrics.collect())
    with connect(autocommit=False) as admin:
        admin.execute("lock table pgq.queue in access exclusive mode")
        reading = Thread(target=duty)
        reading.start()
        eventually(lambda: connection.execute(BLOCKED).fetchone()[0])
        health.change("connecting")
        metrics.readings.pop("shop")
        admin.rollback()
        reading.join()
    assert not any(family.samples for family in metrics.collect())


def test_history_is_a_duty_of_its_own_that_can_be_switched_off(dsn, client, queue, sessions):
    duty = duty_of(database_of(dsn, sessions), "history")
    assert duty.period == HISTORY_PERIOD
    duty()
    assert client.call(calls.history.get_history(queue))
    names = {duty.name for duty in duties_of(database_of(dsn, sessions, history=False))}
    assert "history" not in names


def test_a_table_that_the_server_does_not_vacuum_is_a_failure(dsn, client, connection, login):
    connection.execute(
        "create or replace function pgq.maint_tables_to_vacuum() returns setof text language sql"
        " security definer as $$ values ('pgq.position'), ('pgq.tick') $$"
    )
    with connect_as_tool(make_conninfo(dsn, user=login("pgq_ticker"))) as ticker:
        ((operation, error),) = maint(ticker).failures
    assert operation == ("vacuum", "pgq.position")
    assert '"position"' in str(error)
    assert "autovacuum = on" in str(error)
    assert maint(client).failures == []


def test_a_function_named_without_a_schema_is_that_of_public(dsn, client, connection, queue):
    connection.execute(
        "create function public.version(text) returns int language plpgsql as"
        " $$ begin raise exception 'called' using errcode = 'XX999'; end $$"
    )
    client.set_queue_config(queue, "extra_maint", "{version}")
    with connect_as_tool(dsn) as ticker:
        ((_, error),) = maint(ticker).failures
    assert sqlstate(error) == "XX999"


def test_maintenance_of_which_a_part_fails_each_time_counts_as_failing(
    dsn, connection, queue, sessions
):
    extra_maint(connection, broken="select 1 / 0")
    health = Health("shop", role="active")
    duty = duty_of(database_of(dsn, sessions, health=health), "maint")
    duty()
    assert health.failing_duties() == []  # a lock may delay one run
    duty()
    assert health.failing_duties() == ["maint"]
    connection.execute("update pgq.queue set queue_extra_maint = null")
    duty()
    assert health.failing_duties() == []


FAILS_FOR_THE_LAST = """
    create function pgq.ticker_due(i_first int, i_last int) returns setof text language plpgsql as
    $$ begin
        if i_last = 2147483647 then raise exception 'no'; end if;
        return query select pgq.hidden(i_first, i_last);
    end $$
"""


def test_due_queues_of_which_a_part_cannot_be_read_count_as_a_failing_duty(
    start, dsn, client, connection, queue, monkeypatch
):
    monkeypatch.setattr(tick, "RANGE_SIZE", 1)
    client.create_queue("other")
    connection.execute("alter function pgq.ticker_due rename to hidden")
    connection.execute(FAILS_FOR_THE_LAST)
    daemon = start(dsn, due_period=0.1)

    def due_fails():
        return "'failing_duties': ['due']" in str(daemon.healthz())

    eventually(due_fails)
    connection.execute("drop function pgq.ticker_due")
    connection.execute("alter function pgq.hidden rename to ticker_due")
    eventually(lambda: daemon.healthz()[1]["status"] == "ok")


def test_duty_that_gets_no_connection_is_in_healthz_until_it_gets_one(
    start, dsn, queue, monkeypatch
):
    """The loop keeps its session meanwhile, and ticks."""
    connect = session.open_client

    def no_answer(dsn, settings, **options):
        if settings is periodic.DUTY_SETTINGS:
            raise ConnectionFailed("connection timeout expired")
        return connect(dsn, settings, **options)

    monkeypatch.setattr(session, "open_client", no_answer)
    daemon = start(dsn, gauge_period=0.1, maint_period=0.1, cron=False)

    def state():
        status, body = daemon.healthz()
        ((_, database),) = body["databases"].items()
        return status, body["status"], database["failing_duties"]

    eventually(lambda: state() == (200, "degraded", ["gauges", "maint"]))
    monkeypatch.setattr(session, "open_client", connect)
    eventually(lambda: state() == (200, "ok", []))
