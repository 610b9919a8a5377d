from __future__ import annotations

import json

import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import calls
from tests.cli.support import Connect, Connection, Login, Run, RunJson, failed_with
from tests.client.conftest import open_batch


@pytest.fixture
def _set_aside(orders: pgqpy.Client) -> None:
    """Set one event of the consumer aside, and let another be dead."""
    batch = open_batch(orders, ("placed", "later"), ("placed", "bad"))
    later, bad = orders.get_batch_events(batch)
    orders.call(calls.consume.event_retry_many(batch, [(later, 3600)]))
    orders.event_dead(batch, [(bad, "cannot be read")])
    orders.finish_batch(batch)


def test_register_list_show_and_unregister(run: Run, run_json: RunJson) -> None:
    run("queue", "create", "orders")
    first = run("consumer", "register", "orders", "billing")
    assert (first.exit_code, first.stderr) == (0, "registered billing on orders\n")
    again = run("consumer", "register", "orders", "billing")
    assert (again.exit_code, "already" in again.stderr) == (0, True)
    assert [row["consumer_name"] for row in run_json("consumer", "list")] == ["billing"]
    shown = run_json("consumer", "show", "orders", "billing")
    assert (shown["pending_events"], shown["retry_events"], shown["dead_events"]) == (0, 0, 0)
    gone = run("consumer", "unregister", "orders", "billing")
    assert (gone.exit_code, gone.stderr) == (0, "unregistered billing from orders\n")
    assert run_json("consumer", "list", "orders") == []


@pytest.mark.usefixtures("_set_aside")
def test_unregister_with_events_left_needs_force_without_a_terminal(
    run: Run, run_json: RunJson, client: pgqpy.Client
) -> None:
    client.insert_event("orders", "placed", "new")
    client.tick_queue("orders")
    result = run("consumer", "unregister", "orders", "billing")
    has = ("1 pending", "1 event(s) in the retry queue", "1 dead", "--force")
    assert failed_with(result, 1, *has)
    assert len(run_json("consumer", "list", "orders")) == 1
    assert run("consumer", "unregister", "orders", "billing", "--force").exit_code == 0
    assert run_json("consumer", "list", "orders") == []


def test_unregister_of_a_consumer_that_runs_needs_force(
    run: Run, orders: pgqpy.Client, connect: Connect
) -> None:
    session = connect(application_name="billing app")
    session.execute("select pg_advisory_lock(7366514, sub_id) from pgq.subscription")
    result = run("consumer", "unregister", "orders", "billing")
    assert failed_with(result, 1, "billing app", f"pid {session.info.backend_pid}", "--force")


@pytest.mark.usefixtures("_set_aside")
@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("y\n", 0), ("", 1)])
def test_unregister_with_events_left_asks_on_a_terminal(
    run: Run, client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr("pgqpy.cli.consumer.on_terminal", lambda: True)
    result = run("consumer", "unregister", "orders", "billing", input=answer)
    assert result.exit_code in {0, 1, 130}
    assert "Unregister it" in result.stderr
    assert len(client.get_consumer_info("orders")) == left


def test_unregister_asks_for_events_that_no_tick_has_reached(
    run: Run, orders: pgqpy.Client, connection: Connection
) -> None:
    orders.insert_event("orders", "type", "data")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 minute'")
    result = run("consumer", "unregister", "orders", "billing")
    assert failed_with(result, 1, "about 1 event(s) that no tick has reached", "--force")


@pytest.mark.usefixtures("_set_aside")
def test_show_counts_what_was_set_aside(run: Run, run_json: RunJson, client: pgqpy.Client) -> None:
    client.register_consumer("orders", "shipping")
    shown = run_json("consumer", "show", "orders", "billing")
    assert (shown["retry_events"], shown["dead_events"]) == (1, 1)
    listed = {row["consumer_name"]: row for row in run_json("consumer", "list")}
    assert (listed["billing"]["retry_events"], listed["billing"]["dead_events"]) == (1, 1)
    assert (listed["shipping"]["retry_events"], listed["shipping"]["dead_events"]) == (0, 0)
    heading, first, _ = run("consumer", "list", "orders").stdout.splitlines()
    told = (heading.split()[-4:], first.split()[-4:])
    assert told == (["flight", "retry", "dead", "runs"], ["-", "1", "1", "no"])


@pytest.mark.usefixtures("_set_aside")
def test_a_reader_sees_its_consumers_and_the_counts_of_what_was_set_aside(
    bare_run: Run, login: Login, dsn: str
) -> None:
    guest = make_conninfo(dsn, user=login("pgq_reader"))
    listed = bare_run("--dsn", guest, "consumer", "list", "--json")
    shown = bare_run("--dsn", guest, "consumer", "show", "orders", "billing", "--json")
    for row in (json.loads(listed.stdout)[0], json.loads(shown.stdout)):
        assert row["consumer_name"] == "billing"
        assert (row["retry_events"], row["dead_events"]) == (1, 1)
