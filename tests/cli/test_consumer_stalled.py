"""Stalled consumers: ``consumer set``, and what doctor, log and metrics say of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest
import structlog
from structlog.testing import capture_logs

import pgqpy
from pgqpy import calls
from pgqpy.ticker.duties import maint
from pgqpy.ticker.logs import Report
from pgqpy.ticker.metrics import (
    DETACHED,
    HELD_BYTES,
    HELD_FOR,
    TickerMetrics,
    read_gauges,
)
from tests.cli.support import Connection, Examine, Run, RunJson, failed_with

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("orders", "reports")
LATER = """
    with later as (
        update pgq.queue set queue_switch_time = now() - interval '1 day',
            queue_ticker_idle_period = '2 days')
    update pgq.tick set tick_time = tick_time - interval '1 day'"""


def fill(client: pgqpy.Client, connection: Connection, count: int = 1) -> None:
    """Let reports be behind, so that a rotation waits for it."""
    if not client.get_queue_info("orders"):
        client.create_queue("orders")
        client.register_consumer(*NAMES)
    for number in range(count):
        client.insert_event("orders", "t", str(number))
        client.tick_queue("orders")
        connection.execute(LATER)
        assert maint(client).failures == []
    connection.execute(LATER)


def _fields(run: Run) -> dict[str, str]:
    """Return what consumer show tells of reports, by field."""
    lines = run("consumer", "show", *NAMES).stdout.splitlines()
    return {field: text.strip() for field, _, text in (line.partition(" ") for line in lines)}


@pytest.fixture
def said(client: pgqpy.Client) -> Callable[[], str]:
    """Return what the ticker's log says now of stalled consumers."""
    report = Report("shop", structlog.get_logger(), TickerMetrics())

    def read() -> str:
        with capture_logs() as lines:
            report.log = structlog.get_logger()
            report.stalled(client.call(calls.admin.get_stalled_info()))
        return " ".join(map(str, lines))

    return read


def test_consumer_is_named_then_detached_and_goes_on(
    run: Run,
    run_json: RunJson,
    examine: Examine,
    client: pgqpy.Client,
    connection: Connection,
    said: Callable[[], str],
) -> None:
    fill(client, connection, 3)
    text = said()
    assert "rotation waits for a consumer" in text
    assert all(word in text for word in ("reports", "since", "bytes"))
    assert said() == "", "it was said within the hour"
    reading = read_gauges(client)
    assert reading[HELD_BYTES][NAMES] > 0
    assert reading[HELD_FOR][NAMES] > 86400
    level, text = examine()[1]["stalled"]
    assert level == "warn"
    assert "rotation waits for consumer reports of queue orders, which is" in text

    assert _fields(run)["stall_policy"] == "warn"
    assert run("consumer", "set", *NAMES, "policy=detach", "after=1d").exit_code == 0
    assert _fields(run)["stall_policy"] == "detach after 1 d"
    assert _fields(run)["detached"] == "no"
    assert client.call(calls.admin.get_stalled_info())[0].exceeded
    assert maint(client).failures == []
    assert "consumer detached" in said()
    assert read_gauges(client)[DETACHED] == {NAMES: 1}
    assert read_gauges(client)[HELD_BYTES] == {}
    connection.execute("update pgq.position set pos_active = pos_active - interval '1 day'")
    exit_code, found = examine()
    assert (exit_code, found["stalled"][0]) == (1, "fail")
    assert (found["consumer"][0], found["running"][0]) == ("ok", "ok")
    shown = run_json("consumer", "show", *NAMES)
    assert (shown["stall_policy"], shown["stall_after"], shown["stall_bytes"]) == (
        "detach",
        86400,
        None,
    )
    since = client.call(calls.admin.get_stalled_info())[0].detached
    assert datetime.fromisoformat(shown["detached"]) == since
    assert _fields(run)["detached"].startswith("20")
    assert "position" not in found
    with pytest.raises(pgqpy.ConsumerDetached) as caught:
        client.next_batch(*NAMES)
    assert caught.value.consumer == "reports"

    fill(client, connection, 3)
    refused = run("consumer", "set", *NAMES, "attached=yes")
    assert failed_with(refused, 1, "are gone: the earliest tick left is", "attached=earliest")
    done = run("consumer", "set", *NAMES, "attached=earliest")
    assert done.stderr.startswith("reports on orders: attached again: about ")
    assert run("consumer", "set", *NAMES, "attached=yes").stderr.endswith("attached already\n")
    assert client.next_batch(*NAMES)
    assert "keeps no events any more" in said()


def test_policy_tells_from_its_limits_on(
    run: Run, client: pgqpy.Client, connection: Connection, said: Callable[[], str]
) -> None:
    fill(client, connection, 3)
    text = run("consumer", "set", *NAMES, "policy=warn", "after=99d", "size=1TB").stderr
    assert text == "reports on orders: warn after 99 d or from 1099511627776 bytes on\n"
    assert _fields(run)["stall_policy"] == "warn after 99 d or from 1099511627776 bytes on"
    assert said() == ""
    run("consumer", "set", *NAMES, "policy=warn", "size=1kB")
    assert "rotation waits" in said()
    assert run("consumer", "set", *NAMES, "policy=warn").stderr == "reports on orders: warn\n"
