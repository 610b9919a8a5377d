"""``consumer seek``, and what ``queue`` and ``doctor`` say of retention."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

import pgqpy
from pgqpy.cli import consumer, options
from tests.cli.support import Connect, Connection, Examine, Run, RunJson, failed_with


@pytest.fixture
def filled(orders: pgqpy.Client) -> pgqpy.Client:
    """A client, and three events with a tick after each, for a consumer that has had them."""
    for number in range(3):
        orders.insert_event("orders", "t", str(number))
        orders.tick_queue("orders")
    received(orders)
    return orders


def received(client: pgqpy.Client) -> list[str | None]:
    """Receive all there is."""
    found = []
    while batch := client.next_batch("orders", "billing"):
        found += [event.data for event in client.get_batch_events(batch)]
        client.finish_batch(batch)
    return found


def test_consumer_goes_to_a_place_and_says_what_comes(
    run: Run, filled: pgqpy.Client, connection: Connection
) -> None:
    back = run("consumer", "seek", "orders", "billing", "2")
    assert back.stderr.startswith("moved billing on orders to tick 2 of 20")
    assert back.stderr.endswith(": about 2 event(s) come again\n")
    assert received(filled) == ["1", "2"]
    run("consumer", "seek", "orders", "billing", "beginning")
    forward = run("consumer", "seek", "orders", "billing", "end", "--yes")
    assert forward.stderr.endswith(": about 3 event(s) are skipped\n")
    assert received(filled) == []
    connection.execute("update pgq.tick set tick_time = now() - tick_id * interval '1 hour'")
    connection.execute("update pgq.tick set tick_time = now() where tick_id > 2")
    run("consumer", "seek", "orders", "billing", "1h")
    assert received(filled) == ["1", "2"]
    time = datetime.now(timezone.utc).replace(microsecond=0).isoformat()
    assert run("consumer", "seek", "orders", "billing", time).exit_code == 0


@pytest.mark.parametrize("place", ["end", "3", "1h"])
def test_seek_that_skips_events_asks(
    run: Run,
    filled: pgqpy.Client,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    filled.seek_consumer("orders", "billing", 1)
    connection.execute("update pgq.tick set tick_time = now() - interval '1 day' where tick_id < 4")
    connection.execute("update pgq.tick set tick_time = now() - interval '3 day' where tick_id < 2")
    seek = ("consumer", "seek", "orders", "billing", place)
    skipped = {"end": "3 event(s)", "3": "2 event(s)", "1h": "2 event(s)"}[place]
    last, length = ("4", "3 d") if place == "end" else ("3", "2 d")
    loss = f"his skips about {skipped} that consumer billing of queue orders has not finished: "
    loss += f"ticks 1 to {last}, {length} up to 20"
    assert failed_with(run(*seek), 1, f"error: t{loss}", "add --yes to skip them")
    monkeypatch.setattr(consumer, "on_terminal", lambda: True)
    refused = run(*seek, input="n\n")
    assert f"T{loss}" in refused.stderr
    assert "Skip them? [y/N]" in refused.stderr
    assert refused.stderr.endswith("error: the consumer was not moved\n")
    assert filled.get_consumer_info("orders", "billing")[0].last_tick == 1
    assert run(*seek, input="y\n").exit_code == 0
    assert filled.get_consumer_info("orders", "billing")[0].last_tick == int(last)
    for harmless in (place, "1", "beginning"):
        assert run(*seek[:-1], harmless).exit_code == 0


def test_seek_asks_for_events_of_an_open_batch(run: Run, filled: pgqpy.Client) -> None:
    filled.seek_consumer("orders", "billing", 1)
    assert filled.next_batch("orders", "billing")
    assert failed_with(run("consumer", "seek", "orders", "billing", "2"), 1, "about 1 event(s)")


def test_seek_over_ticks_without_events_does_not_ask(run: Run, filled: pgqpy.Client) -> None:
    filled.set_queue_config("orders", "ticker_idle_period", "0")
    tick = filled.tick_queue("orders")
    assert tick
    assert tick.tick_id == 5
    assert run("consumer", "seek", "orders", "billing", "end").exit_code == 0


def test_seek_says_what_it_dropped(run: Run, filled: pgqpy.Client) -> None:
    filled.seek_consumer("orders", "billing", 3)
    batch = filled.next_batch("orders", "billing")
    assert batch
    filled.batch_retry(batch, 3600)
    filled.finish_batch(batch)
    end = run("consumer", "seek", "orders", "billing", "end", "--discard", "--yes")
    assert end.stderr.endswith("; dropped 1 that waited\n")


def test_place_that_makes_no_sense_is_refused_with_the_earliest(
    run: Run, filled: pgqpy.Client
) -> None:
    seek = ("consumer", "seek", "orders")
    assert failed_with(run(*seek, "billing", "sooner"), 2, "'sooner' is no time", "beginning, end")
    gone = run(*seek, "billing", "2020-01-01")
    assert failed_with(gone, 1, "the earliest tick of queue orders is 1, of 20", "(first_tick=1, ")
    assert failed_with(run(*seek, "billing", "99"), 1, "cannot seek to tick 99", "before it is 4")
    assert failed_with(run(*seek, "nobody", "end"), 1, "pgqpy consumer list")


def test_seek_that_meets_a_transaction_at_work_says_so(
    run: Run, filled: pgqpy.Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "LOCK_TIMEOUT", "50ms")
    filled.seek_consumer("orders", "billing", 3)
    other = pgqpy.Client(connect())
    with other.transaction():
        batch = other.next_batch("orders", "billing")
        assert batch
        result = run("consumer", "seek", "orders", "billing", "end", "--yes")
        assert failed_with(result, 1, "a transaction is at work for consumer billing")


def test_retention_is_shown_where_it_keeps_events(
    run: Run, run_json: RunJson, examine: Examine, client: pgqpy.Client, connection: Connection
) -> None:
    made = run("queue", "create", "orders", "--set", "retention=2 days")
    assert made.exit_code == 0
    assert run_json("queue", "show", "orders")["queue_retention"] == 2 * 86400
    assert run_json("queue", "show", "orders")["earliest_tick"] == 1
    connection.execute("update pgq.queue set queue_switch_time = now() - interval '30 hours'")
    found = examine()[1]
    assert "rotation" not in found or found["rotation"][0] == "ok"
    level, text = found["retention"]
    assert level == "ok"
    assert text.startswith("queue orders keeps its events for 2 d")
    connection.execute("update pgq.queue set queue_switch_time = now() - interval '60 hours'")
    assert examine()[1]["rotation"][0] == "warn"
    run("queue", "set", "orders", "retention=")
    assert run_json("queue", "show", "orders")["queue_retention"] is None
    assert failed_with(run("queue", "set", "orders", "retention=-1 d"), 1, "0 to 100 years")
