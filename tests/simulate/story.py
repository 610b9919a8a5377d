"""A history of a simulation, made by hand."""

from __future__ import annotations

from typing import Any

from pgqpy.simulate.checker import Content, History, Stored, check


class Story:
    """A history made by hand: each call is the next moment."""

    def __init__(self, *, ordered: bool = True) -> None:
        self.history = History(ordered=ordered)
        self.clock = 0

    def insert(
        self, *events: int, key: str = "a", tick: int | None = 1, outcome: str = "commit"
    ) -> None:
        """Insert events of a key; a tick shows them (None: no tick does)."""
        for event in events:
            self.add("insert", event=event, **fields(event, key))
            if tick is not None:
                self.history.stored.append(Stored(tick, event, content(event, key)))
        if outcome:
            self.add(outcome, events=list(events))

    def begin(self, event: int, *, run: int = 0, retry: int | None = None, key: str = "a") -> None:
        self.add("begin", run=run, event=event, retry=retry, **fields(event, key))

    def end(self, event: int, *, run: int = 0, ok: bool = True) -> None:
        self.add("end", run=run, event=event, ok=ok)

    def handle(self, event: int, *, ok: bool = True, run: int = 0, **more: Any) -> None:
        self.begin(event, run=run, **more)
        self.end(event, run=run, ok=ok)

    def add(self, do: str, **line: Any) -> None:
        self.clock += 1
        self.history.add([{"at": self.clock, "do": do, **line}])

    def broken(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the promises that the checker finds broken, with the events concerned."""
        self.history.close()
        return [(found.promise, found.events) for found in check(self.history)]


def fields(event: int, key: str) -> dict[str, Any]:
    return {"number": event, "key": key, "type": "paid"}


def content(event: int, key: str = "a") -> Content:
    return Content(**fields(event, key))
