"""A process that gets no more threads for a while: consumers go on when it gets some."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.consumers import waiting
from tests.consumers.harness import END, private
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = ("pgqpy-own-calls", "pgqpy-heartbeat", "pgqpy-run-end")


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function: from now on threads of these names are refused; it returns which were."""
    start = threading.Thread.start
    names: list[str] = []
    refused: list[str] = []

    def started(thread: threading.Thread) -> None:
        name = "Timer" if isinstance(thread, threading.Timer) else thread.name
        if name in names:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)

    def refuse(*wanted: str) -> list[str]:
        names[:] = wanted
        return refused

    return refuse


@pytest.mark.parametrize("name", OURS[:2])
def test_a_session_waits_for_the_threads_that_it_needs(queue, make, connection, log, refuse, name):
    seen: list[Any] = []
    make.start(lambda event: seen.append(event.data), shared=True)
    queue.deliver("a")
    refused = refuse(name)
    connection.execute(END)
    eventually(lambda: len(refused) >= 2)
    refuse()
    queue.insert("b")
    eventually(lambda: seen == ["a", "b"])
    assert "this process gets no more threads: can't start new thread), tries again" in log.text


def test_a_consumer_stops_without_a_thread_that_tells_of_its_end(
    queue, make, connection, log, refuse
):
    running = make.start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    refused = refuse(*OURS)
    connection.execute(END)
    eventually(lambda: len(refused) >= 2)
    running.stop()
    assert refused[-1] == "pgqpy-run-end"
    assert "stops, but could not tell the server" in log.text


def test_heartbeats_go_on_after_one_that_had_no_thread(queue, make, log, refuse):
    seen: list[str] = []

    def handler(event: Any) -> None:
        refused = refuse("Timer")
        eventually(lambda: "no heartbeat for batch" in log.text)
        assert refused == ["Timer"]
        held, now = private(running.consumer, "loop").held, waiting.boottime()
        refuse()
        eventually(lambda: held.beat_at > now)
        seen.append(event.data)

    running = make.start(handler, shared=True, dead_interval=1)
    queue.deliver("a")
    assert seen == ["a"]
