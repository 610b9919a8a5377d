"""What arrived at a consumer, and a way to ask its process for it. Only the standard library."""

from __future__ import annotations

import json
import sys
import time
from threading import Thread


class Arrivals:
    """Notes number, start of insert and arrival of each event; answers questions on stdin.

    A line "count" is answered with how many arrived, "take" with all of them, which are then
    forgotten, as lists [number, begun, arrived].
    """

    def __init__(self) -> None:
        """Answer from now on."""
        self._found: list[tuple[int, int, int]] = []
        Thread(target=self._answer, daemon=True).start()

    def arrived(self, text: str, now: int | None = None) -> None:
        """Note an event; the time is taken first unless it was taken before."""
        now = now or time.monotonic_ns()
        number, begun, _ = text.split(" ", 2)
        self._found.append((int(number), int(begun), now))

    def _answer(self) -> None:
        for line in sys.stdin:
            if line.strip() == "take":
                taken, self._found = self._found, []
                print(json.dumps(taken), flush=True)
            else:
                print(len(self._found), flush=True)
