"""A process that gets no more threads for a while: consumers go on when it gets some."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.consumers.harness import END
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "pgqpy-own-calls"


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


def test_a_session_waits_for_the_threads_that_it_needs(queue, make, connection, log, refuse):
    seen: list[Any] = []
    make.start(lambda event: seen.append(event.data))
    queue.deliver("a")
    refused = refuse(OURS)
    connection.execute(END)
    eventually(lambda: len(refused) >= 2)
    refuse()
    queue.insert("b")
    eventually(lambda: seen == ["a", "b"])
    assert "this process gets no more threads: can't start new thread), tries again" in log.text
