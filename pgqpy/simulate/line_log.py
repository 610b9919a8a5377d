"""The log of events, a file of each process, and the figures counted from it.

A line is one write, so that SIGKILL takes back no line that was written. Times are those of the
machine's monotonic clock, in nanoseconds: processes of one machine share it.

    {"at": …, "do": "insert", "producer": 0, "event": 7, "number": 3, "key": "key-1", …}
    {"at": …, "do": "commit", "producer": 0, "events": [7]}      or "rollback"
    {"at": …, "do": "begin", "run": 0, "event": 7, "retry": null, "number": 3, …}
    {"at": …, "do": "end", "run": 0, "event": 7, "ok": true}
    {"at": …, "do": "lost", "run": 0}          the worker lost its session
    {"at": …, "do": "kill", "run": 0}
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pgqpy.sandbox import View

if TYPE_CHECKING:
    Line = dict[str, Any]

SUFFIX = ".jsonl"


class LineLog:
    """The file of one process. Threads may write at the same time."""

    def __init__(self, path: Path, **always: int) -> None:
        """Open the file. Each line gets what is in `always`, the process's number."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(path, flags, 0o600)
        self._always = always

    def write(self, do: str, **fields: Any) -> None:
        """Append one line."""
        line = {"at": time.monotonic_ns(), "do": do, **self._always, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class LogReader:
    """Reads what has been written to all files of a folder, each line once."""

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._read: dict[Path, int] = {}  # bytes

    def new_lines(self) -> list[Line]:
        """Return the lines since the last call, by time. A line that is cut short is left out."""
        found: list[Line] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            found += map(json.loads, whole.splitlines())
        return sorted(found, key=lambda line: int(line["at"]))


class Progress:
    """Counts lines of the log, and shows the counts."""

    def __init__(self, view: View) -> None:
        """Count from zero."""
        self._view = view
        self._began = self._last = time.monotonic()
        self._committed = self._handled = self._failed = 0
        self.kills = 0
        self.at_work: set[int] = set()  # the runs that have handled something

    @property
    def idle(self) -> float:
        """The seconds since the last line of the log."""
        return time.monotonic() - self._last

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Count the lines, and show the counts."""
        for line in lines:
            self._last = time.monotonic()
            if line["do"] == "commit":
                self._committed += len(line["events"])
            elif line["do"] == "end":
                self.at_work.add(line["run"])
                self._handled += line["ok"]
                self._failed += not line["ok"]
        cells = [
            ("committed", f"{self._committed:,}"),
            ("handled", f"{self._handled:,}"),
            ("failed", f"{self._failed:,}"),
            ("kills", str(self.kills)),
        ]
        self._view.show(time.monotonic() - self._began, cells)


def write_lines(file: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    """Write the lines to the file of --log."""
    file.writelines(f"{json.dumps(line)}\n" for line in lines)
    file.flush()
