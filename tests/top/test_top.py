"""The overview in a terminal, driven by textual's pilot, over a real database; its texts."""

from __future__ import annotations

import threading
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import install
from pgqpy.doctor import Finding
from pgqpy.texts import size
from pgqpy.top.app import LiveTable, Top
from pgqpy.top.lines import answer_line, fitting, problem_lines, text
from pgqpy.watch import Count, NoAnswer, Snapshot, Watcher
from tests.support.silent_proxy import SilentProxy
from tests.support.waiting import eventually, eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from textual.pilot import Pilot

    from pgqpy.testing import EmbeddedServer
    from pgqpy.watch import Snapshot

    Connection = psycopg.Connection[Any]

WATCHERS = """
    select from pg_stat_activity
    where application_name = 'pgqpy watch' and datname = current_database()
"""


def shown(app: Top) -> str:
    """Return the text on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def names(app: Top) -> list[str]:
    """Return the first cells of the table's rows."""
    lines = shown(app).splitlines()
    (heading,) = (number for number, line in enumerate(lines) if line.startswith(" queue "))
    return [line.split()[0] for line in lines[heading + 1 :] if line.startswith(" q")]


@asynccontextmanager
async def running(dsn: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Top, Any]]:
    """Run the application; yield it and its pilot after its first poll."""
    app = Top(Watcher(dsn))
    async with app.run_test(size=size) as pilot:
        await eventually_async(lambda: app.snapshot.examined or app.snapshot.no_answer)
        await pilot.pause()
        yield app, pilot


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, and let the application do what they ask for."""
    await pilot.press(*keys)
    await pilot.pause()


def kill_one(client: pgqpy.Client, queue: str, consumer: str, error: BaseException) -> None:
    """Let a consumer have one dead event."""
    client.insert_event(queue, "placed", "data")
    client.tick_queue(queue)
    batch = client.next_batch(queue, consumer)
    assert batch is not None
    client.event_dead(batch, [(event, error) for event in client.get_batch_events(batch)])
    client.finish_batch(batch)


@pytest.mark.usefixtures("new_orders")
async def test_the_worst_comes_first_with_the_command_that_mends_it(
    dsn: str, client: pgqpy.Client, connection: Connection
) -> None:
    client.insert_events("orders", [("placed", "data")] * 7)
    client.tick_queue("orders")
    connection.execute("update pgq.tick set tick_time = now() - interval '3 hours'")
    async with running(dsn) as (app, _pilot):
        text = shown(app)
    first, second, third, *_ = text.splitlines()
    assert first.startswith(connection.info.dbname[:40])
    assert "no active ticker" in " ".join((first + " " + second).split())  # 80 columns wrap it
    assert "FAIL " in {second[:5], third[:5]}
    assert "pgqpy ticker run" in text
    assert "1 of 1 queues, by lag" in text
    row = next(line for line in text.splitlines() if line.startswith(" orders"))
    assert " 3 h " in row
    assert "  7     0      0  no ticker" in row


async def test_keys_sort_the_queues(dsn: str, client: pgqpy.Client, connection: Connection) -> None:
    for queue in ("q-a", "q-b", "q-c"):
        client.create_queue(queue)
        client.register_consumer(queue, "billing")
    kill_one(client, "q-b", "billing", ValueError())
    client.insert_event("q-c", "placed", "data")
    client.tick_queue("q-c")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 hour'")
    async with running(dsn) as (app, pilot):
        assert names(app) == ["q-c", "q-a", "q-b"]
        await press(pilot, "down", "d")
        assert names(app)[0] == "q-b"
        assert app.screen.query_one(LiveTable).chosen == "q-a"  # the cursor stays on its queue
        await press(pilot, "n")
        assert names(app) == ["q-a", "q-b", "q-c"]
        await press(pilot, "r")
        assert "by rate" in shown(app)
        await press(pilot, "slash", *"-b", "enter")
        assert names(app) == ["q-b"]
        await press(pilot, "escape")
        assert len(names(app)) == 3


@pytest.mark.usefixtures("new_orders")
async def test_keys_look_into_a_queue_and_a_consumer(dsn: str, client: pgqpy.Client) -> None:
    kill_one(client, "orders", "billing", ValueError("no such customer"))
    client.insert_event("orders", "placed", "data")
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    async with running(dsn) as (app, pilot):
        await press(pilot, "enter")
        text = shown(app)
        assert text.startswith("queue orders in ")
        assert "rotation: every 2 h" in text
        assert " billing " in text
        await press(pilot, "enter")
        text = shown(app)
        assert text.startswith("consumer billing of queue orders")
        assert str(batch.id) in text
        assert "dead: 1" in text
        await press(pilot, "escape", "escape", "question_mark")
        assert "quit" in shown(app)
        await press(pilot, "escape", "p")
        assert "pgqpy event list orders dead billing" in shown(app)


async def test_a_shared_consumer_shows_who_has_what(dsn: str, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "letters", shared=True)
    client.insert_events("orders", [("placed", "1")] * 3)
    client.receive("orders", "letters", limit=2, wait=0)
    async with running(dsn, (120, 24)) as (app, pilot):
        await press(pilot, "enter", "enter")
        text = shown(app)
        assert "in flight: 1 fresh, 0 returned, 2 claimed, 0 delayed, 0 waiting" in text
        (row,) = (line for line in text.splitlines() if "(receivers)" in line)
        assert row.split()[:2] == ["(receivers)", "2"]


async def test_names_and_errors_are_shown_as_they_are_without_markup_or_sequences(
    dsn: str, client: pgqpy.Client, connection: Connection
) -> None:
    queue, consumer = "[red]x[/]", "[@click=app.quit]\u202ey"
    client.create_queue(queue)
    client.register_consumer(queue, consumer)
    kill_one(client, queue, consumer, ValueError("reason"))
    connection.execute("update pgq.registration set sub_detached = now()")
    async with running(dsn, size=(120, 40)) as (app, pilot):
        overview = shown(app)
        await press(pilot, "p")
        problems = shown(app)
        await press(pilot, "escape", "enter")
        of_queue = shown(app)
        await press(pilot, "enter")
        of_consumer = shown(app)
    assert " [red]x[/] " in overview
    assert r"[@click=app.quit]\u202ey of [red]x[/]" in problems
    assert of_queue.startswith("queue [red]x[/] in ")
    assert r"consumer [@click=app.quit]\u202ey is detached" in of_queue
    assert r" [@click=app.quit]\u202ey  " in of_queue
    assert of_consumer.startswith(r"consumer [@click=app.quit]\u202ey of queue [red]x[/] in ")
    for screen in (overview, problems, of_queue, of_consumer):
        assert "\x1b" not in screen
        assert "\u202e" not in screen


@pytest.mark.usefixtures("new_orders")
async def test_without_colours_the_chosen_row_is_reversed(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(dsn) as (app, _pilot):
        strips = app.screen._compositor.render_strips()
    styles = [(each.text, each.style) for strip in strips for each in strip if each.style]
    colors = [color for _, style in styles for color in (style.color, style.bgcolor) if color]
    assert [color for color in colors if not color.is_default] == []
    reversed_ = "".join(text for text, style in styles if style.reverse)
    assert "orders" in reversed_


async def test_a_poll_that_ends_while_a_screen_has_no_widgets_is_harmless(
    dsn: str, client: pgqpy.Client
) -> None:
    async with running(dsn) as (app, _):
        await app.screen.query("*").remove()
        app.show(app.snapshot)


async def test_a_database_that_is_lost_shows_since_when_and_comes_back(
    own_server: EmbeddedServer,
) -> None:
    dsn = own_server.dsn("postgres")
    with psycopg.connect(dsn, autocommit=True) as connection:
        install.install(connection)
    with pgqpy.connect(dsn) as client:
        client.create_queue("q-orders")
    async with running(dsn) as (app, pilot):
        assert names(app) == ["q-orders"]
        own_server.stop("immediate")
        await press(pilot, "space")
        await eventually_async(lambda: "no answer for" in shown(app))
        await eventually_async(lambda: "cannot connect" in shown(app))
        assert names(app) == ["q-orders"]
        own_server.start()
        await eventually_async(lambda: "no answer" not in shown(app))


async def test_a_server_that_hangs_keeps_neither_the_keys_nor_the_end(
    own_server: EmbeddedServer,
) -> None:
    with psycopg.connect(own_server.dsn("postgres"), autocommit=True) as connection:
        install.install(connection)
        connection.execute("select pgq.create_queue('q-orders')")
    proxy = SilentProxy(own_server.dsn("postgres"))
    with closing(proxy):
        with ExitStack() as stack:
            async with running(proxy.dsn) as (app, pilot):
                stack.enter_context(proxy.silent())
                await press(pilot, "space", "enter")
                assert "queue q-orders" in shown(app)
                await press(pilot, "q")
            assert app._poller._thread.is_alive()
        app._poller._thread.join()


@pytest.mark.usefixtures("new_orders")
async def test_q_ends_it_with_its_connection(dsn: str, connection: Connection) -> None:
    async with running(dsn) as (app, pilot):
        assert len(connection.execute(WATCHERS).fetchall()) == 1
        await press(pilot, "q")
        assert app.return_code == 0
    assert eventually(lambda: not connection.execute(WATCHERS).fetchall())


class Waiting(Watcher):
    """A watcher whose first poll ends when it is told to."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.may_poll = threading.Event()

    def polls(self, *, fully: bool = False) -> Iterator[Snapshot]:
        assert self.may_poll.wait(60)
        return super().polls(fully=fully)


async def test_before_the_first_look_it_says_nothing_about_the_database(dsn: str) -> None:
    watcher = Waiting(dsn)
    app = Top(watcher)
    async with app.run_test() as pilot:
        await pilot.pause()
        first = shown(app)
        watcher.may_poll.set()
        await eventually_async(lambda: "no active ticker" in shown(app))
    assert first.startswith("no data yet")
    assert "the checks run" in first
    assert "ticker" not in first


async def test_an_unexpected_error_ends_it_and_is_returned(dsn: str) -> None:
    class Broken(Watcher):
        def polls(self, *, fully: bool = False) -> Any:
            raise ZeroDivisionError

    app = Top(Broken(dsn))
    async with app.run_test():
        await eventually_async(lambda: app.return_value)
    assert isinstance(app.return_value, ZeroDivisionError)


NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=timezone.utc)
TAKEN = Snapshot(taken=NOW - timedelta(seconds=70))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (1.26, "1.3"),
        (412.4, "412"),
        (timedelta(seconds=3.2), "3.2 s"),
        (Count(10_000, more=True), "10,000+"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("x" * 65, "x" * 63 + "…"),
        (NOW, "2026-11-23 12:00:00"),
    ],
)
def test_a_value_is_one_short_line(value: Any, shown: str) -> None:
    assert text(value) == shown


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(None, "-"), (0, "0 kB"), (48 << 10, "48 kB"), (5 << 19, "2.5 MB"), (1 << 50, "1,024 TB")],
)
def test_a_size_has_a_unit(octets: int | None, shown: str) -> None:
    assert size(octets) == shown


def test_a_database_that_answers_needs_no_line() -> None:
    assert answer_line(Snapshot(), NOW, 5.0) is None
    assert answer_line(replace(TAKEN, taken=NOW), NOW, 5.0) is None


def test_a_database_that_does_not_answer_shows_since_when_and_how_old_the_data_are() -> None:
    lost = NoAnswer(NOW - timedelta(seconds=12), "cannot\nconnect", connected=False)
    assert answer_line(Snapshot(no_answer=lost), NOW, 5.0) == r"no answer for 12 s: cannot\nconnect"
    line = answer_line(replace(TAKEN, no_answer=lost), NOW, 5.0)
    assert line == r"no answer for 12 s; data of 1 min 10 s ago: cannot\nconnect"
    refused = replace(lost, what="permission denied", connected=True)
    line = answer_line(replace(TAKEN, no_answer=refused), NOW, 5.0)
    assert line == "no data for 12 s; data of 1 min 10 s ago: permission denied"


def test_a_look_without_an_answer_yet_shows_how_old_the_data_are() -> None:
    assert answer_line(TAKEN, NOW, 69.0) == "no answer yet; data of 1 min 10 s ago"
    assert answer_line(TAKEN, NOW, 70.0) is None


def test_a_problem_has_the_command_that_mends_it_below() -> None:
    found = [Finding("fail", "ticker", "no ticker", "pgqpy ticker run"), Finding("warn", "a", "b")]
    assert problem_lines(found) == [
        "FAIL ticker: no ticker",
        "     -> pgqpy ticker run",
        "WARN a: b",
    ]


def test_only_as_many_problems_are_shown_as_fit_with_a_line_that_tells_of_the_others() -> None:
    short, long = Finding("warn", "a", "b", "c"), Finding("fail", "a", "b " * 60, "c")
    assert fitting([], 80, 9) == 1
    assert fitting([short] * 4, 80, 9) == 4
    assert fitting([short] * 5, 80, 9) == 4  # and "1 more: press p"
    assert fitting([short] * 4, 80, 8) == 4
    assert fitting([short] * 5, 80, 8) == 3
    assert fitting([long] * 3, 80, 9) == 3
    assert fitting([long] * 4, 80, 9) == 2
    assert fitting([long] * 3, 60, 9) == 2
    assert fitting([long] * 3, 10, 9) == 1
