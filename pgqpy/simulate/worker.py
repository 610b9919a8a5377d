"""A worker, as a process: `python -m pgqpy.simulate.worker RUN FILE OPTIONS`."""

from __future__ import annotations

import logging
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pgqpy.consumers import Consumer
from pgqpy.simulate.line_log import LineLog
from pgqpy.simulate.options import CONSUMER, MAX_RETRIES, PART_SIZE, QUEUE, Options

if TYPE_CHECKING:
    from pgqpy import Event


class SimulatedFailure(Exception):
    """The handler failed, as --fail demands."""


class Worker(Consumer):
    """Sleeps, and fails now and then; writes down what it does before and after."""

    queue = QUEUE
    name = CONSUMER
    key = "extra1"
    part_size = PART_SIZE
    max_retries = MAX_RETRIES
    backoff = (0.1, 3600.0)  # seconds

    def __init__(self, log: LineLog, options: Options) -> None:
        """Connect to nothing yet; PGQPY_DSN names the database."""
        super().__init__(
            shared=options.shared,
            lanes=options.lanes,
            on_error="park" if options.park else "retry",
            concurrency=options.concurrency,
            filter={"type": options.types} if options.types else None,
        )
        self._log = log
        self._options = options

    def process_event(self, event: Event) -> None:
        """Handle an event. What it does depends on the seed, the event and its retry only."""
        data = event.json()
        self._log.write(
            "begin",
            event=event.id,
            retry=event.retry,
            number=data["number"],
            key=data["key"],
            type=event.type,
        )
        rng = random.Random(f"{self._options.seed} event {event.id} {event.retry}")
        time.sleep(rng.uniform(*self._options.work))
        failed = rng.random() < self._options.fail
        self._log.write("end", event=event.id, ok=not failed)
        if failed:
            raise SimulatedFailure


class LostSession(logging.Handler):
    """Writes down when the worker loses its session: its unfinished events come again."""

    def __init__(self, worker: Worker, log: LineLog) -> None:
        """Watch the warnings that a consumer logs about itself."""
        super().__init__(logging.WARNING)
        self._worker = worker
        self._log = log

    def emit(self, _record: logging.LogRecord) -> None:
        """Ask the worker whether it has a session."""
        if self._worker.outage() is not None:
            self._log.write("lost")


def main(run: int, path: Path, options: Options) -> None:
    """Run the worker until SIGTERM."""
    log = LineLog(path, run=run)
    worker = Worker(log, options)
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("pgqpy.consumers").addHandler(LostSession(worker, log))
    worker.run()


if __name__ == "__main__":
    _, number, file, options = sys.argv
    main(int(number), Path(file), Options.from_json(options))
