"""A history of a simulation, made by hand."""

from __future__ import annotations

import re
from typing import Any

from pgqpy.simulate.checker import Content, History, Stored, check

HANDLING = re.compile(r"(\(?)(\d)(b?)(!?)(?:r(\d))?(\)?)(?:@(\d))?")


class Story:
    """A history made by hand: each call is the next moment."""

    def __init__(self) -> None:
        self.history = History()
        self.clock = 0

    def insert(
        self, *events: int, key: str = "a", shown: bool = True, outcome: str = "commit"
    ) -> None:
        """Insert events of a key in one transaction; a tick shows them, unless not `shown`."""
        for event in events:
            self.add("insert", event=event, **fields(event, key))
            if shown:
                self.history.stored.append(Stored(event, content(event, key)))
        self.add(outcome, events=list(events))

    def play(self, script: str) -> Story:
        """Let workers do what a script says, one word after another.

        `2` an event is handled, `2!` its handler fails, `(2` and `2)` it begins and ends, `2r1` its
        first retry, `2@1` by the worker of run 1 (0 without it), `2b` with the key b; `kill0` and
        `lost0`: the worker of run 0 is killed, or loses its session.
        """
        for word in script.split():
            if word.startswith(("kill", "lost")):
                self.add(word[:4], run=int(word[4:]))
                continue
            found = HANDLING.fullmatch(word)
            assert found is not None, word
            begins, number, key, fails, retry, ends, run = found.groups()
            known = {"event": int(number), "run": int(run or 0)}
            if not ends:
                more = {"retry": int(retry) if retry else None}
                self.add("begin", **known, **more, **fields(known["event"], key or "a"))
            if not begins:
                self.add("end", **known, ok=not fails)
        return self

    def add(self, do: str, **line: Any) -> None:
        self.clock += 1
        self.history.add([{"at": self.clock, "do": do, **line}])

    def broken(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the promises that the checker finds broken, with the events concerned."""
        self.history.close()
        return [(found.promise, found.events) for found in check(self.history)]


def fields(event: int, key: str) -> dict[str, Any]:
    return {"number": event, "key": key, "type": "type1"}


def content(event: int, key: str = "a") -> Content:
    return Content(**fields(event, key))
