"""The receivers of a case: processes that get orders together."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import Wrong
from benchmarks.load.children import Child, child, module
from benchmarks.load.receive import Order, Received

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.load.backlog import Backlog


@dataclass
class Receivers:
    """Processes that receive.

    Attributes:
        processes: as many as the largest number of receivers.
        seconds: how long events count.
        warm_up: seconds before that.
    """

    processes: list[Child]
    seconds: float
    warm_up: float

    @property
    def span(self) -> float:
        """The seconds for which a backlog must last."""
        return self.warm_up + self.seconds

    def rate(self, backlog: Backlog, dsn: str, limit: int, number: int) -> float:
        """Let `number` of them receive from a backlog; return the events a second."""
        start = time.monotonic_ns() + int(self.warm_up * 1e9)
        stop = start + int(self.seconds * 1e9)
        order = json.dumps(Order(backlog.contestant, dsn, limit, start, stop))
        with ThreadPoolExecutor(number) as pool:
            answers = pool.map(lambda process: process.ask(order), self.processes[:number])
            received = [Received(*answer) for answer in answers]
        for one in received:
            backlog.remove(one.events, one.ids)
        counted = sum(one.counted for one in received)
        if not counted:
            raise Wrong(f"{backlog.contestant}: nothing came to {number} receivers")
        return counted * 1e9 / (max(one.last for one in received) - start)


@contextmanager
def receivers(number: int, seconds: float, warm_up: float) -> Iterator[Receivers]:
    """Run processes for as long as the block lasts."""
    with ExitStack() as stack:
        command = module("receive")
        processes = [stack.enter_context(child(*command)) for _ in range(number)]
        yield Receivers(processes, seconds, warm_up)
