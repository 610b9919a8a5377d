"""The events that arrived at a consumer, and answers to its parent process.

Debian's Python imports this too: only the standard library.
"""

from __future__ import annotations

import json
import sys
import time
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Arrival = tuple[int, int, int]  # number of the event, when its insert began, when it arrived: ns


def answer(questions: Mapping[str, Callable[[], Any]]) -> None:
    """Answer each line of standard input with the result of that question's function, as JSON.

    A thread does so while the process works.
    """

    def run() -> None:
        for line in sys.stdin:
            print(json.dumps(questions[line.strip()]()), flush=True)

    Thread(target=run, daemon=True).start()


def parse(text: str) -> tuple[int, int]:
    """Return number and start of insert of an event's text."""
    number, begun, _ = text.split(" ", 2)
    return int(number), int(begun)


class Arrivals:
    """Notes arrivals. Answers "count" with their number and "take" with the arrivals."""

    def __init__(self) -> None:
        """Answer from now on."""
        self._found: list[Arrival] = []
        self._lock = Lock()
        answer({"count": lambda: len(self._found), "take": self._take})

    def arrived(self, text: str, now: int | None = None) -> None:
        """Note an event; the time is taken first unless it was taken before."""
        now = now or time.monotonic_ns()
        found = (*parse(text), now)
        with self._lock:
            self._found.append(found)

    def _take(self) -> list[Arrival]:
        with self._lock:
            taken, self._found = self._found, []
        return taken
