"""The gauges of queues: what they keep, rotation, pauses, transactions that hold xmin back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy import calls
from pgqpy.ticker import metrics
from pgqpy.ticker.metrics import (
    CAPTURE_PROBLEMS,
    CAPTURED,
    CONSUMER_LAG,
    NEWEST_EVENT,
    OLDEST_EVENT,
    OLDEST_TRANSACTION,
    QUEUE_BYTES,
    QUEUE_EVENTS,
    QUEUE_PAUSED,
    ROTATION_AGE,
    ROTATION_OVERDUE,
    SizesReader,
    read_gauges,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    import pytest

    from pgqpy import Client

SWITCHED = "update pgq.queue set queue_switch_time = now() + %s::interval"


def test_gauges_show_what_queues_keep(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    reading = read_gauges(client)
    assert reading[QUEUE_EVENTS] == {(queue,): 0}
    assert reading[OLDEST_EVENT] == reading[NEWEST_EVENT] == {}
    client.insert_event(queue, "t", "1")
    reading = read_gauges(client)
    assert reading[QUEUE_EVENTS] == {(queue,): 1}
    assert reading[NEWEST_EVENT][(queue,)] < 60
    client.tick_queue(queue)
    connection.execute("update pgq.tick set tick_time = now() - interval '1 h'")
    reading = read_gauges(client)
    assert reading[OLDEST_EVENT][(queue,)] >= 3600
    assert (
        reading[QUEUE_BYTES][(queue,)]
        == client.call(calls.admin.get_queue_metrics(queue))[0].total_bytes
    )


def test_sizes_that_took_long_to_read_stay_until_it_is_worth_it(
    client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = SizesReader()
    client.insert_event(queue, "t", "1")
    monkeypatch.setattr(metrics, "SIZES_PAUSE", 1e9)
    assert read_gauges(client, sizes)[QUEUE_EVENTS] == {(queue,): 1}
    client.insert_event(queue, "t", "2")
    client.create_queue("other")
    assert read_gauges(client, sizes)[QUEUE_EVENTS] == {(queue,): 1}
    client.drop_queue(queue, force=True)
    assert read_gauges(client, sizes)[QUEUE_EVENTS] == {}
    monkeypatch.setattr(metrics, "SIZES_PAUSE", 0)
    assert read_gauges(client, SizesReader())[QUEUE_EVENTS] == {("other",): 0}


def test_a_rotation_is_overdue_from_its_period_on_and_while_a_retention_lets_it(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    client.set_queue_config(queue, "rotation_period", "2 hours")
    connection.execute(SWITCHED, ["-3 hours"])
    reading = read_gauges(client)
    assert 3 * 3600 <= reading[ROTATION_AGE][(queue,)] < 4 * 3600
    assert 3600 <= reading[ROTATION_OVERDUE][(queue,)] < 2 * 3600
    client.set_queue_config(queue, "retention", "1 day")
    assert read_gauges(client)[ROTATION_OVERDUE] == {(queue,): 0}
    connection.execute(SWITCHED, ["1 hour"])  # the clock was stepped back
    reading = read_gauges(client)
    assert reading[ROTATION_AGE] == reading[ROTATION_OVERDUE] == {(queue,): 0}
    client.set_queue_config(queue, "external_ticker", True)
    reading = read_gauges(client)
    assert reading[ROTATION_AGE] == reading[ROTATION_OVERDUE] == {}


def test_a_paused_queue_shows_as_such(client: Client, queue: str) -> None:
    assert read_gauges(client)[QUEUE_PAUSED] == {(queue,): 0}
    client.set_queue_config(queue, "ticker_paused", True)
    assert read_gauges(client)[QUEUE_PAUSED] == {(queue,): 1}


def test_the_oldest_transaction_is_shown_to_who_may_see_it(
    client: Client,
    connection: psycopg.Connection[Any],
    connect: Callable[..., psycopg.Connection[Any]],
) -> None:
    holder = connect()
    holder.execute("begin")
    holder.execute("select pg_current_xact_id()")
    age = "select extract(epoch from clock_timestamp() - xact_start) from pg_stat_activity"
    pid = holder.info.backend_pid
    ((least,),) = connection.execute(f"{age} where pid = %s", [pid]).fetchall()
    assert read_gauges(client)[OLDEST_TRANSACTION][()] >= least > 0
    client.connection.execute("set role pgq_ticker")
    assert read_gauges(client)[OLDEST_TRANSACTION] == {}


def test_no_age_is_negative_after_the_clock_was_stepped_back(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    client.insert_event(queue, "t", "1")
    client.tick_queue(queue)
    client.next_batch(queue, "billing")
    connection.execute("update pgq.tick set tick_time = tick_time + interval '1 day'")
    connection.execute(SWITCHED, ["1 day"])
    ahead = "now() + interval '1 day'"
    connection.execute(
        f"update pgq.position set pos_active = {ahead}, pos_moved = {ahead}".encode()
    )
    for metric, values in read_gauges(client).items():
        assert min(values.values(), default=0) >= 0, metric


def test_lag_of_a_tick_in_the_future_counts_from_the_first_later_one_that_is_not(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    connection.execute("update pgq.tick set tick_time = now() + interval '1 day'")
    assert read_gauges(client)[CONSUMER_LAG][queue, "billing"] == 0
    for age in ("-1 hour", "2 hours", "1 hour"):
        client.tick_queue(queue)
        connection.execute(
            "update pgq.tick set tick_time = now() - %s::interval"
            " where tick_id = (select max(tick_id) from pgq.tick)",
            [age],
        )
    (info,) = client.get_consumer_info(queue, "billing")
    assert 7200 <= metrics.seconds(info.lag) < 7300


def test_captured_tables_and_their_problems_are_counted(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    assert read_gauges(client)[CAPTURED] == {}
    connection.execute("create table public.captured (id int primary key)")
    connection.execute("select pgq.add_capture(%s, 'public.captured')", [queue])
    reading = read_gauges(client)
    assert (reading[CAPTURED], reading[CAPTURE_PROBLEMS]) == ({(queue,): 1}, {(queue,): 0})
    connection.execute('alter table public.captured disable trigger "!pgq_truncate"')
    assert read_gauges(client)[CAPTURE_PROBLEMS] == {(queue,): 1}
    connection.execute("drop table public.captured")
