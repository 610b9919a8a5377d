"""Duties that fail each time: /healthz lists them until they work again."""

from __future__ import annotations

from pgqpy.errors import ConnectionFailed
from pgqpy.ticker import periodic, session, tick
from pgqpy.ticker.web import Health
from tests.support.waiting import eventually
from tests.ticker.harness import database_of, duty_of, extra_maint


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
