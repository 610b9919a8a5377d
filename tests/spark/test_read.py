"""What a task promises: the events of its range, all of them, or an error that says what to do."""

from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg import sql
from pyspark.sql.types import StructType

from pgqpy import calls
from pgqpy.errors import QueueNotFound, RangeExpired
from tests.spark.feed import datas, read, rows_of
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

DATA = StructType().add("ev_data", "string")

END = """
    select {}(pid) from pg_stat_activity
     where application_name like 'pgqpy spark%' and datname = current_database()"""

READER = "-c role=pgq_reader"
READERS = "select count(*) from pg_stat_activity where application_name = 'pgqpy spark orders'"
OLD = """
    select count(*) from pg_stat_activity
     where application_name like 'pgqpy spark%' and datname = current_database()
       and clock_timestamp() - xact_start > interval '300 ms'
"""


@pytest.fixture
def large(feed):
    """Read a batch of many kilobytes: `large(1000)`; the session opens at the first `next`."""

    def batches(events):
        feed.client.insert_events(feed.queue, (("t", "x" * 1000) for _ in range(events)))
        feed.tick()
        reader = feed.batch(DATA)
        (partition,) = reader.partitions()
        return reader.read(partition)

    return batches


def test_a_queue_that_was_dropped_is_named(feed):
    feed.insert("a")
    reader = feed.batch()
    partitions = reader.partitions()
    feed.client.drop_queue(feed.queue)
    with pytest.raises(QueueNotFound) as caught:
        rows_of(reader, partitions)
    assert "queue 'orders' (option queue) was dropped" in str(caught.value)


def test_a_range_that_rotation_took_is_an_error_unless_loss_is_no_failure(feed, caplog):
    feed.insert("a")
    reader, lenient = feed.batch(), feed.batch(failOnDataLoss="false")
    partitions, left = reader.partitions(), lenient.partitions()
    feed.rotate()
    feed.insert("b")
    with pytest.raises(RangeExpired) as caught:
        rows_of(reader, partitions)
    assert caught.value.tick_id == 1
    assert f"tick {caught.value.first_tick} is the first that can be read" in str(caught.value)
    assert "failOnDataLoss" in str(caught.value)
    assert rows_of(lenient, left) == []
    assert "skipping the removed events" in caplog.text


def test_the_timeouts_of_a_role_do_not_end_a_slow_read(large, client):
    batches = large(20_000)
    connection = client.connection
    names = ["statement_timeout", "idle_in_transaction_session_timeout"]
    if connection.info.server_version >= 170000:
        names.append("transaction_timeout")
    for name in names:
        database = sql.Identifier(connection.info.dbname)
        setting = sql.SQL("alter database {} set {} = '100ms'")
        connection.execute(setting.format(database, sql.Identifier(name)))
    count = next(batches).num_rows
    eventually(lambda: connection.execute(OLD).fetchone() == (1,))
    assert count + sum(batch.num_rows for batch in batches) == 20_000


def test_rotation_waits_for_who_reads(feed, large):
    batches = large(20_000)
    count = next(batches).num_rows
    feed.rotate(beside_reader=True)
    count += sum(batch.num_rows for batch in batches)
    assert count == 20_000
    feed.rotate()
    with pytest.raises(RangeExpired):
        read(feed.batch(DATA, startingOffsets={"orders": 1}))


@pytest.mark.parametrize("table", ["pgq.tick", "pgq.event_1"])
def test_row_security_hides_nothing_from_a_reader(feed, client, table):
    feed.insert("a")
    reader = feed.batch(DATA, dsn=psycopg.conninfo.make_conninfo(feed.dsn, options=READER))
    partitions = reader.partitions()
    client.connection.execute(f"alter table {table} enable row level security")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        rows_of(reader, partitions)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        reader.partitions()


def test_who_stops_reading_leaves_nothing_behind(large, client):
    batches = large(30_000)
    threads = threading.active_count()
    next(batches)
    batches.close()
    assert threading.active_count() == threads
    eventually(lambda: client.connection.execute(READERS).fetchone() == (0,))


def test_what_was_rolled_back_is_not_there_and_what_took_long_is(feed, client, connect):
    slow, failed = connect(autocommit=False), connect(autocommit=False)
    insert = "select pgq.insert_event('orders', 't', %s)"
    slow.execute(insert, ["slow"])
    failed.execute(insert, ["failed"])
    feed.insert("quick")
    failed.rollback()
    feed.tick()
    slow.commit()
    last = feed.tick()
    rows = read(feed.batch())
    assert {row["ev_data"]: row["tick_id"] for row in rows} == {"quick": 2, "slow": last}
    assert datas(read(feed.batch(startingOffsets={"orders": last - 1}))) == ["slow"]


def test_what_tasks_staged_side_by_side_is_read_side_by_side(feed):
    feed.insert("plain")
    stages = []
    for task in range(4):
        with feed.client.transaction():
            stages.append(feed.client.call(calls.produce.open_stage(feed.queue, "w", 1)))
            events = (("t", f"{task} of {number}") for number in range(100))
            feed.client.insert_events(feed.queue, events)
        feed.tick()
    feed.client.call(calls.produce.commit_stage(feed.queue, "w", 1, stages, 400))
    given = feed.tick()
    feed.insert("after")
    reader = feed.batch(minPartitions=4)
    found = [rows_of(reader, [partition]) for partition in reader.partitions()]
    assert len(found) == 4
    assert all(90 <= len(rows) <= 110 for rows in found)
    rows = [row for rows in found for row in rows]
    staged = [f"{task} of {number}" for number in range(100) for task in range(4)]
    assert datas(rows) == sorted(["plain", "after", *staged])
    assert {row["tick_id"] for row in rows if "of" in row["ev_data"]} == {given}


def test_ticks_that_are_thinned_out_after_planning_are_not_missed(feed, client):
    for number in range(8):
        feed.insert(str(number))
    reader = feed.batch(minPartitions=4)
    partitions = reader.partitions()
    ticks = "select count(*) from pgq.tick"
    (before,) = client.connection.execute(ticks).fetchone()
    client.connection.execute("select pgq.compact_ticks()")
    (after,) = client.connection.execute(ticks).fetchone()
    assert after < before
    assert len(partitions) == 4
    assert datas(rows_of(reader, partitions)) == list("01234567")


def test_who_plans_while_the_queue_rotates_sees_one_or_the_other(feed, connect):
    feed.insert("a")
    keeper, watcher = connect(autocommit=False), connect()
    keeper.execute("lock table pgq.event_1 in access exclusive mode")
    failures = []
    reader = feed.batch(DATA)  # whose schema is not looked up: only the planner connects

    def plan():
        try:
            reader.partitions()
        except RangeExpired as error:  # pragma: no cover  # what must not happen
            failures.append(error)

    thread = threading.Thread(target=plan)
    thread.start()
    planner = "select pid from pg_stat_activity where application_name = 'pgqpy spark orders'"
    (pid,) = eventually(lambda: watcher.execute(planner).fetchone())
    wait_until_blocked(watcher, pid)
    keeper.execute("update pgq.queue set queue_low_tick = 2")
    keeper.commit()
    thread.join()
    assert not failures


def test_the_database_is_named_by_environment_or_service(feed, monkeypatch, tmp_path):
    feed.insert("a")
    named = psycopg.conninfo.conninfo_to_dict(feed.dsn)
    lines = [f"{name}={value}" for name, value in named.items()]
    (tmp_path / "services").write_text("\n".join(["[shop]", *lines, ""]))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert datas(read(feed.batch(dsn=None, service="shop"))) == ["a"]
    monkeypatch.setenv("PGQPY_DSN", feed.dsn)
    assert datas(read(feed.batch(dsn=None))) == ["a"]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("pg_cancel_backend", psycopg.errors.QueryCanceled),
        ("pg_terminate_backend", psycopg.OperationalError),
    ],
)
def test_a_read_that_the_server_ends_raises_the_servers_error(large, client, function, error):
    batches = large(30_000)
    next(batches)
    client.connection.execute(END.format(function))
    with pytest.raises(error, match=r"canceling statement|connection"):
        list(batches)
