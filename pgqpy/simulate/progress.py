"""The figures of a running simulation, counted from its log."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.sandbox.view import View


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
