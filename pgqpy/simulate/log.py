"""The log of a simulation: written by each process to a file of its own, read by the command."""

from __future__ import annotations

import json
import os
import random
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pgqpy.simulate.checker import Content
    from pgqpy.simulate.options import Options

    Line = dict[str, Any]


class LineLog:
    """The log of events of one process. Threads may write at the same time.

    A line is one write, so that SIGKILL takes back no line that was written. Times are those of the
    machine's monotonic clock, in nanoseconds: processes of one machine share it. An insert has the
    time before its statement was sent.

        {"at": …, "do": "insert", "system": "pgqpy", "producer": 0, "event": 7, "number": 3, …}
        {"at": …, "do": "commit", "system": "pgqpy", "producer": 0, "events": [7]}   or "rollback"
        {"at": …, "do": "start", "system": "pgqpy", "run": 0}      the worker begins to look
        {"at": …, "do": "begin", "system": "pgqpy", "run": 0, "event": 7, "retry": null, …}
        {"at": …, "do": "end", "system": "pgqpy", "run": 0, "event": 7, "ok": true}
        {"at": …, "do": "empty", "system": "peer", "run": 0}       a poll that found nothing
        {"at": …, "do": "lost", "system": "pgqpy", "run": 0}       the worker lost its session
        {"at": …, "do": "kill", "system": "pgqpy", "run": 0}
    """

    def __init__(self, path: Path, **always: Any) -> None:
        """Open the file. Each line gets what is in `always`; the folder's name is the system."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(path, flags, 0o600)
        self._always = {"system": path.parent.name, **always}

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
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            found += map(json.loads, whole.splitlines())
        return sorted(found, key=lambda line: int(line["at"]))


def handle(
    log: LineLog, options: Options, event: int, content: Content, retry: int | None = None
) -> bool:
    """Work on an event, and log it; say whether it ended well.

    What happens depends on the seed, the event's number and its retry only.
    """
    log.write("begin", event=event, retry=retry, **content._asdict())
    rng = random.Random(f"{options.seed} event {content.number} {retry}")
    time.sleep(rng.uniform(*options.work))
    good = rng.random() >= options.fail
    log.write("end", event=event, ok=good)
    return good
