"""The threads of a shared consumer. No database."""

from __future__ import annotations

import threading

from pgqpy.consumers.in_hand import Work
from pgqpy.consumers.waiting import Wakeup
from pgqpy.consumers.workers import Workers
from tests.support.waiting import eventually


def test_handlers_go_on_in_fewer_threads_where_the_system_has_no_more(monkeypatch, caplog):
    first, second = (Work("q", 1, 7, []) for _ in range(2))
    seen: list[Work] = []
    workers = Workers(seen.append, 3, Wakeup())
    workers.start(first, 0)

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.start(second, 1)
    eventually(lambda: seen == [first, second])
    assert workers.number == 1
    assert "going on with 1 side by side" in caplog.text
    workers.cancel()
