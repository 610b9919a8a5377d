"""The doctor on real databases with problems."""

from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import calls
from tests.cli.support import Connect, Connection, Examine, Run, failed_with
from tests.client.conftest import open_batch


def test_healthy_database_is_fine(examine: Examine, run: Run) -> None:
    code, worst = examine()
    assert code == 0
    assert {level for level, _ in worst.values()} <= {"ok", "warn"}
    assert worst["schema"][0] == "ok"
    lines = run("doctor").stdout.splitlines()
    assert lines
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}


@pytest.mark.parametrize("style", ["sql_standard", "postgres_verbose", "iso_8601"])
def test_the_database_may_have_any_style_of_intervals_and_dates(
    run: Run, orders: pgqpy.Client, dsn: str, style: str
) -> None:
    database = make_conninfo(dsn, options=f"-c IntervalStyle={style} -c DateStyle=German")
    for command in ("doctor", "queue show orders", "consumer show orders billing", "queue list"):
        result = run(*command.split(), "--dsn", database)
        assert result.exit_code in (0, 1), result.output
        assert result.stderr == ""


def test_stage_that_nobody_commits(
    examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    client.create_queue("orders")
    with client.transaction():
        client.call(calls.produce.open_stage("orders", "Joe's"))
    assert "stage" not in examine()[1]
    connection.execute("update pgq.stage set stage_time = now() - interval '3 hours'")
    worst = examine()[1]
    assert worst["stage"][0] == "warn"
    assert "select pgq.drop_stage('orders', 'Joe''s')" in worst["stage"][1]


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (("set transaction isolation level repeatable read", "select 1"), "user "),
        (("select * from pgq.event_template",), "stops rotation"),  # it holds no xmin back
    ],
)
def test_transaction_that_holds_xmin_or_rotation_back(
    examine: Examine, connect: Connect, statements: tuple[str, ...], says: str
) -> None:
    holder = connect(application_name="holder", autocommit=False)
    for statement in statements:
        holder.execute(statement.encode())
    code, worst = examine("--long-transaction", "0.000001")
    assert code == 1
    assert worst["transaction"][0] == "fail"
    for words in (f"pid {holder.info.backend_pid}", "holder", "idle in transaction", says):
        assert words in worst["transaction"][1]
    assert examine()[0] == 0  # it is not old yet
    holder.rollback()
    told = examine("--long-transaction", "0.000001")[1]["transaction"][1]
    assert f"pid {holder.info.backend_pid} " not in told


def test_prepared_transaction_that_holds_xmin_back_makes_no_line_of_its_own_in_a_pipe(
    examine: Examine, run: Run, connect: Connect, dsn: str
) -> None:
    name = f"x\nok       running      all\x1b[2K {dsn}"[:150].replace("'", "")
    owner = connect()
    owner.execute("begin")
    owner.execute("select txid_current()")
    owner.execute(f"prepare transaction '{name}'".encode())
    try:
        code, worst = examine("--long-transaction", "0.000001")
        said = run("doctor", "--long-transaction", "0.000001").stdout
    finally:
        owner.execute(f"rollback prepared '{name}'".encode())
    assert code == 1
    assert "prepared transaction x" in worst["transaction"][1]
    assert r"prepared transaction x\nok" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("seconds", ["nan", "-1", "0", "inf", "1e12", "soon"])
def test_an_invalid_age_is_wrong_usage(run: Run, seconds: str) -> None:
    result = run("doctor", "--long-transaction", seconds)
    assert failed_with(result, 2, "--long-transaction")


def test_switched_off_queue(examine: Examine, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.set_queue_config("orders", "ticker_paused", "true")
    client.set_queue_config("orders", "disable_insert", "true")
    code, worst = examine()
    assert (code, worst["paused"][0]) == (0, "warn")


def test_infinite_retry_times_do_not_break_the_check(
    examine: Examine, orders: pgqpy.Client, connection: Connection
) -> None:
    connection.execute(
        "select pgq.event_retry_raw('orders', 'billing', now(), null, null, null, 'type', 'data',"
        " null, null, null, null)"
    )
    connection.execute("update pgq.retry_queue set ev_retry_after = 'infinity'")
    assert "retry" not in examine()[1]
    connection.execute("update pgq.retry_queue set ev_retry_after = '-infinity'")
    code, worst = examine()
    assert (code, worst["retry"][0]) == (1, "fail")


def test_retry_queue_overdue_and_dead_events(
    examine: Examine, orders: pgqpy.Client, connection: Connection, run: Run
) -> None:
    batch = open_batch(orders, ("type", "later"), ("type", "never"))
    later, never = orders.get_batch_events(batch)
    orders.call(calls.consume.event_retry_many(batch, [(later, 0)]))
    orders.event_dead(batch, [(never, "bad")])
    connection.execute("update pgq.retry_queue set ev_retry_after = now() - interval '1 hour'")
    code, worst = examine()
    assert code == 1
    assert worst["retry"][0] == "fail"
    level, said = worst["dead"]
    assert level == "warn"
    assert "pgqpy event list orders dead billing" in said
    for what, does in (("retry", "retries"), ("delete", "deletes")):
        command = f"event {what} orders billing --all"
        assert f"pgqpy {command} {does} them" in said
        assert run(*command.split()).exit_code == 0


def test_dead_events_are_counted_up_to_a_bound(
    examine: Examine, orders: pgqpy.Client, connection: Connection
) -> None:
    connection.execute(
        "insert into pgq.dead_event"
        " (dead_reason, dead_tries, ev_queue, ev_owner, ev_id, ev_time, ev_txid)"
        " select 'bad', 1, sub_queue, sub_id, n, now(), 1"
        " from pgq.registration cross join generate_series(1, 10001) n"
    )
    assert "has 10000 or more dead event(s)" in examine()[1]["dead"][1]


def test_delayed_events_that_nobody_moves(
    examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    client.create_queue("orders")
    client.insert_event("orders", "type", "data", delay=3600)
    assert "delayed" not in examine()[1]
    connection.execute("update pgq.delayed_event set ev_deliver_at = now() - interval '5 min'")
    code, worst = examine()
    assert (code, worst["delayed"][0]) == (1, "fail")
    assert "due for 5 min" in worst["delayed"][1]
    assert "pgqpy event list orders delayed" in worst["delayed"][1]


def test_many_events_that_fail_again_and_again(
    examine: Examine, orders: pgqpy.Client, connection: Connection
) -> None:
    batch = open_batch(orders, *[("type", "stubborn")] * 10)
    orders.call(
        calls.consume.event_retry_many(
            batch, [(event, 60) for event in orders.get_batch_events(batch)]
        )
    )
    assert "retry" not in examine()[1]
    connection.execute("update pgq.retry_queue set ev_retry = 5")
    code, worst = examine()
    assert (code, worst["retry"][0]) == (0, "warn")
    for words in ("billing of orders has 10 events", "pgqpy consumer show orders billing"):
        assert words in worst["retry"][1]
