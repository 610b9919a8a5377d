"""One poll for all viewers, only while somebody watches; a lost database comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from pgqpy import Client
from pgqpy.dashboard import app, live
from pgqpy.dashboard.live import Feed
from pgqpy.watch import Snapshot, Watcher
from tests.dashboard.conftest import checked
from tests.support.databases import new_database
from tests.support.servers import Server
from tests.support.waiting import eventually, eventually_async

SESSIONS = """
    select count(*) from pg_stat_activity
    where application_name = 'pgqpy watch' and datname = current_database()"""


class CountingWatcher(Watcher):
    """A watcher that counts its polls."""

    count = 0

    def polls(self, *, fully: bool = False) -> Iterator[Snapshot]:
        self.count += 1
        return super().polls(fully=fully)


class SlowlyChecking(Watcher):
    """A watcher whose checks end when they are told to."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.may_end = threading.Event()

    def _examine(self, client: Client, *, fully: bool) -> Snapshot | None:
        assert self.may_end.wait(60)
        return super()._examine(client, fully=fully)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the next poll, and the poll ends with the last viewer."""
    monkeypatch.setattr(live, "LINGER", 0.0)
    monkeypatch.setattr(Watcher, "pause", 0.01)


@pytest.mark.usefixtures("_quick")
async def test_nothing_is_polled_while_nobody_looks(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    watcher = CountingWatcher(dsn)
    feed = Feed(watcher)
    assert watcher.count == 0
    async for snapshot in feed.follow():
        assert snapshot is not None
        assert snapshot.database
        assert feed.polls
        if watcher.count > 2:
            break
    await eventually_async(lambda: not feed.polls)
    polls = watcher.count
    await eventually_async(lambda: connection.execute(SESSIONS).fetchall() == [(0,)])
    assert watcher.count == polls
    assert (await feed.snapshot()).taken is not None  # it begins again
    await feed.stop()


async def test_the_data_do_not_wait_for_the_checks(dsn: str) -> None:
    watcher = SlowlyChecking(dsn)
    feed = Feed(watcher)
    following = feed.follow()
    first = await anext(following)
    watcher.may_end.set()
    second = await anext(following)
    assert first is not None
    assert second is not None
    assert (first.taken, first.examined, first.checking) == (second.taken, None, True)
    assert (bool(second.findings), second.checking) == (True, False)
    await feed.stop()
    await following.aclose()


def test_a_page_says_that_the_checks_run_and_reloads_soon(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[SlowlyChecking] = []

    def make(dsn: str) -> Watcher:
        made.append(SlowlyChecking(dsn))
        return made[-1]

    monkeypatch.setattr(app, "Watcher", make)
    browser = site()
    for path in ("/", "/tickers"):
        page = browser.get(path).text
        assert "The checks run" in page
        assert '<noscript><meta http-equiv="refresh" content="2">' in page
    made[0].may_end.set()
    for path in ("/", "/tickers"):
        page = checked(browser, path)
        assert '<noscript><meta http-equiv="refresh" content="10">' in page


@pytest.mark.usefixtures("_quick")
async def test_all_viewers_share_one_poll(dsn: str) -> None:
    watcher = CountingWatcher(dsn)
    feed = Feed(watcher)
    seen: list[set[Any]] = []

    async def view() -> None:
        mine: set[Any] = set()
        async for snapshot in feed.follow():
            assert snapshot is not None
            mine.add(snapshot.taken)
            if len(mine) == 5:
                break
        seen.append(mine)

    await asyncio.gather(*(view() for _ in range(20)))
    await feed.stop()
    assert len(seen) == 20
    assert watcher.count < 20 * 5 / 2


class SlowlyClosing(Watcher):
    """A watcher whose session closes when it is told to."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.closing, self.may_close = threading.Event(), threading.Event()

    def close(self) -> None:
        self.closing.set()
        assert self.may_close.wait(30)
        super().close()


@pytest.mark.usefixtures("_quick")
async def test_who_comes_while_the_session_closes_is_looked_for(dsn: str) -> None:
    watcher = SlowlyClosing(dsn)
    feed = Feed(watcher)
    first = feed.follow()
    await anext(first)
    await first.aclose()
    assert await asyncio.to_thread(watcher.closing.wait, 30)
    late = feed.follow()
    last = await anext(late)
    following = asyncio.ensure_future(anext(late))
    watcher.may_close.set()
    assert (await following) is not None, "a poll, not the silence after QUIET seconds"
    assert last is not None
    await feed.stop()
    await late.aclose()


async def test_a_text_is_made_once_for_all_who_ask(dsn: str) -> None:
    feed, made = Feed(Watcher(dsn)), []

    async def make() -> str:
        made.append(1)
        return "text"

    assert await asyncio.gather(*(feed.text("page", make) for _ in range(9))) == ["text"] * 9
    assert made == [1]


@pytest.mark.usefixtures("_quick")
async def test_a_stream_too_many_ends_the_oldest(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    feed = Feed(Watcher(dsn))
    oldest = feed.follow()
    await anext(oldest)
    newest = feed.follow()
    await anext(newest)
    await asyncio.wait_for(_to_the_end(oldest), 30)
    assert await anext(newest) is not None
    await feed.stop()
    await newest.aclose()


@pytest.mark.usefixtures("_quick")
async def test_a_stop_ends_streams_and_poll(dsn: str) -> None:
    feed = Feed(Watcher(dsn))
    stream = feed.follow()
    await anext(stream)
    await feed.stop()
    await asyncio.wait_for(_to_the_end(stream), 30)
    assert not feed.polls


def test_pages_of_a_lost_database_say_so(
    server: Server, template: str, connect: Any, site: Any
) -> None:
    with new_database(server, template) as name:
        admin, allow = connect(server.dsn()), f"alter database {name} allow_connections "
        browser = site(dsn=server.dsn(name))
        assert "alert" not in browser.get("/").text
        admin.execute(allow + "false")
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        admin.execute(ended, [name])

        def lost() -> bool:
            overview, cron = browser.get("/"), browser.get("/cron")
            assert cron.status_code == 503
            return "The database does not answer" in overview.text and overview.is_success

        eventually(lost)
        admin.execute(allow + "true")
        eventually(lambda: browser.get("/cron").is_success)


async def _to_the_end(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass
