"""The doctor on consumers that no session runs, or that finish nothing."""

from __future__ import annotations

import shlex

import pytest

import pgqpy
from pgqpy import calls
from tests.cli.support import Connect, Connection, Examine, Login, Run, RunJson

NAMES = ("orders", "billing")
LOCK = "select pg_advisory_lock(7366514, sub_id) from pgq.subscription"


@pytest.fixture
def waiting(orders: pgqpy.Client, connection: Connection) -> None:
    """Three events have waited for consumer billing of queue orders for 16 minutes."""
    orders.insert_events("orders", [("type", "data")] * 3)
    orders.tick_queue("orders")
    age(connection, "16 minutes")
    orders.tick_queue("orders")


def age(connection: Connection, span: str) -> None:
    """Move the ticks and the last calls of the consumers into the past."""
    connection.execute("update pgq.tick set tick_time = now() - %s::interval", [span])
    connection.execute(
        "update pgq.position set pos_active = now() - %(span)s::interval,"
        " pos_moved = now() - %(span)s::interval",
        {"span": span},
    )


@pytest.mark.usefixtures("waiting")
def test_events_that_wait_for_a_consumer_that_nobody_runs_are_a_failure(examine: Examine) -> None:
    code, worst = examine()
    assert code == 1
    assert worst["running"][0] == "fail"
    for words in ("billing of queue orders: about 3 event(s) wait", "the oldest for 16 min"):
        assert words in worst["running"][1]
    assert "pgqpy consumer unregister orders billing" in worst["running"][1]
    assert "with --force" in worst["running"][1]


@pytest.mark.usefixtures("waiting")
def test_remedies_quote_names_for_the_shell(
    examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    """A reader may register any name, and an administrator pastes the remedy into a shell."""
    name = "x; touch it's #"
    client.register_consumer_at("orders", name, 1)
    client.unregister_consumer("orders", "billing")
    age(connection, "16 minutes")
    told = examine()[1]["running"][1]
    remedy = told[told.index("pgqpy consumer unregister") :].partition(" (in a script")[0]
    assert shlex.split(remedy) == ["pgqpy", "consumer", "unregister", "orders", name]


@pytest.mark.usefixtures("waiting")
def test_after_the_clock_was_ahead_nothing_that_stands_still_is_fine(
    examine: Examine, connection: Connection
) -> None:
    age(connection, "-1 day")
    connection.execute("update pgq.queue set queue_switch_time = now() + interval '1 day'")
    code, worst = examine()
    assert code == 1
    expected = {"ticker": "fail", "running": "fail", "rotation": "warn"}
    assert {check: worst[check][0] for check in expected} == expected
    for check in expected:
        assert "in the future: the clock was ahead" in worst[check][1]


@pytest.mark.usefixtures("waiting")
def test_a_stream_that_nobody_runs_is_a_failure_and_an_archive_between_two_runs_is_none(
    examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    (tick,) = connection.execute("select min(tick_id) from pgq.tick").fetchone() or (0,)
    client.call(calls.ticks.advance_subscription("orders", "billing", tick, tick))
    age(connection, "16 minutes")
    worst = examine()[1]
    assert worst["running"][0] == "fail"  # a stream
    assert worst["consumer"][0] == "ok"
    assert "run the archive or Spark query that uses it" in worst["running"][1]
    connection.execute("update pgq.consumer set co_name = 'archive'")
    assert examine()[1]["running"][0] == "warn"


@pytest.mark.usefixtures("waiting")
def test_a_consumer_that_runs_and_finishes_nothing_is_a_warning(
    examine: Examine, connect: Connect
) -> None:
    session = connect(application_name="billing app")
    session.execute(LOCK)
    code, worst = examine()
    assert (code, worst["running"][0]) == (0, "warn")
    for words in ("runs, but has finished nothing for 16 min", "3 event(s) wait"):
        assert words in worst["running"][1]
    session.execute("update pgq.position set pos_moved = now() - interval '9 minutes'")
    code, worst = examine()
    assert (code, worst["running"][0]) == (0, "ok")
    assert "1 of 1" in worst["running"][1]


@pytest.mark.usefixtures("waiting")
def test_a_consumer_that_starts_again_and_again_and_finishes_nothing_is_a_warning(
    examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    """An error that ends its runs, with a supervisor."""
    client.next_batch("orders", "billing")
    age(connection, "9 minutes")
    connection.execute("update pgq.position set pos_moved = now() - interval '16 minutes'")
    connection.execute("update pgq.tick set tick_time = now() - interval '16 minutes'")
    client.tick_queue("orders")
    for _ in range(2):
        connection.execute("select pgq.release_batch(batch_id) from pgq.open_batch(%s, %s)", NAMES)
    code, worst = examine()
    assert (code, worst["running"][0]) == (0, "warn")
    for words in ("ago, but has finished nothing for 16 min", "an error may end each of its runs"):
        assert words in worst["running"][1]


@pytest.mark.usefixtures("waiting")
def test_a_session_that_may_not_consume_and_holds_the_lock_runs_nothing(
    examine: Examine, run_json: RunJson, connect: Connect, login: Login
) -> None:
    with connect(user=login()) as stranger:
        stranger.execute("select pg_advisory_lock(7366514, 1)")
        assert examine()[1]["running"][0] == "fail"
        assert run_json("consumer", "list")[0]["runs"] is None


@pytest.mark.usefixtures("waiting")
def test_a_reader_without_a_lock_that_was_just_seen_runs(
    examine: Examine, connection: Connection
) -> None:
    connection.execute(
        "update pgq.position set pos_active = now() - interval '50 s',"
        " pos_moved = now() - interval '9 minutes'"
    )
    assert examine()[1]["running"][0] == "ok"


def test_events_that_have_waited_for_less_than_a_minute_are_no_failure(
    examine: Examine, orders: pgqpy.Client, connection: Connection
) -> None:
    age(connection, "16 minutes")
    assert examine()[1]["running"][1].startswith("0 of 1 consumer(s) run, no events wait")
    orders.insert_event("orders", "type", "data")
    orders.tick_queue("orders")
    level, what, *_ = examine()[1]["running"]
    assert level == "ok"
    assert "no events have waited for the others for more than 1 min" in what


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(("seen", "level"), [("5 minutes", "warn"), ("16 minutes", "fail")])
def test_the_open_batch_of_a_dead_process_is_named(
    examine: Examine, client: pgqpy.Client, connection: Connection, seen: str, level: str
) -> None:
    batch = client.next_batch("orders", "billing")
    connection.execute("update pgq.position set pos_active = now() - %s::interval", [seen])
    worst = examine()[1]
    assert worst["running"][0] == level
    assert (
        f"its batch {batch.id if batch else 0} is open, last seen {seen[:-4]}"
        in (worst["running"][1])
    )


@pytest.mark.usefixtures("waiting")
def test_processes_that_died_with_the_open_batch_are_a_warning(
    client: pgqpy.Client, examine: Examine, run_json: RunJson
) -> None:
    for attempt in (1, 2):
        opened = client.call(calls.consume.open_batch("orders", "billing", None, None, None))
        assert run_json("consumer", "show", "orders", "billing")["batch_attempts"] == attempt
        assert ("crash" in examine()[1]) == (attempt > 1)
    assert opened
    told = f"batch {opened.batch.id} of consumer billing of queue orders is handled for the 2. time"
    assert told in examine()[1]["crash"][1]


@pytest.mark.usefixtures("waiting")
def test_consumer_list_says_which_run(run: Run, run_json: RunJson, connect: Connect) -> None:
    client = pgqpy.Client(connect())
    client.register_consumer("orders", "idle")
    session = connect(application_name="billing app")
    session.execute(
        f"{LOCK} natural join (select co_id from pgq.consumer where co_name = 'billing')"
        " as c where sub_consumer = co_id"
    )
    pid = session.info.backend_pid
    shown = run("consumer", "list").stdout
    assert f"pid {pid}" in shown.splitlines()[1]
    assert "billing app" in shown.splitlines()[1]
    assert shown.splitlines()[2].endswith("  no")
    runs = {row["consumer_name"]: row["runs"] for row in run_json("consumer", "list")}
    assert runs["idle"] is None
    assert runs["billing"]["pid"] == pid
    assert runs["billing"]["application"] == "billing app"
    assert set(runs["billing"]) == {"pid", "host", "application"}
    assert run_json("consumer", "show", "orders", "billing")["runs"]["pid"] == pid
    assert "billing app" in run("consumer", "show", "orders", "billing").stdout
