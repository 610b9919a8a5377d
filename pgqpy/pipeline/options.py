"""What a pipeline is told to do, as data, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}
INTERVAL = re.compile(r"(\d+) ?(ms|s|min|h)")
CHECKPOINT, BAD = "_checkpoint", "_bad"  # underscored: readers of a lake pass over such names


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """One pipeline: from a queue to files, or to the terminal (format console)."""

    queue: str
    to: str | None = None
    format: str = "parquet"
    schema: str | None = None  # DDL of the JSON objects in ev_data; None leaves ev_data as it is
    consumer: str = "pipeline"
    checkpoint: str | None = None  # None: beside the data, or temporary where there is none
    bad_to: str | None = None  # None: beside the data
    once: bool = False
    every: str = "10s"
    starting_offsets: str | None = None
    max_events: int = 1_000_000  # so that a long backlog gets on in steps
    partitions: int | None = None
    types: tuple[str, ...] = ()  # of event; none means all
    master: str | None = None

    @property
    def checkpoint_path(self) -> str | None:
        """Where Spark keeps the query's progress."""
        return self.checkpoint or self._beside(CHECKPOINT)

    @property
    def bad_path(self) -> str | None:
        """Where bad records go."""
        return self.bad_to or self._beside(BAD)

    def source_options(self) -> dict[str, str]:
        """Return the options of the source that were given."""
        given = {
            "queue": self.queue,
            "consumer": self.consumer,
            "startingOffsets": self.starting_offsets,
            "maxEventsPerTrigger": self.max_events,
            "minPartitions": self.partitions,
        }
        return {name: str(value) for name, value in given.items() if value is not None}

    def trigger(self) -> dict[str, Any]:
        """Return the arguments of DataStreamWriter.trigger."""
        if self.once:
            return {"availableNow": True}
        return {"processingTime": spark_interval(self.every)}

    def describe(self) -> str:
        """Say what goes where, in one line."""
        if self.to is None:
            return f"{self.queue} to the terminal, as consumer {self.consumer}"
        places = f"bad records to {self.bad_path}, checkpoint in {self.checkpoint_path}"
        return f"{self.queue} to {self.to} as {self.format}, consumer {self.consumer}; {places}"

    def _beside(self, name: str) -> str | None:
        return None if self.to is None else f"{self.to.rstrip('/')}/{name}"


def spark_interval(text: str) -> str:
    """Return an interval as Spark writes it: "10s" is "10 seconds". ValueError if it is none."""
    found = INTERVAL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no interval: write 500ms, 10s, 5min or 1h")
    return f"{found[1]} {UNITS[found[2]]}"
