"""The options of a pipeline, and the options of Spark that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}
INTERVAL = re.compile(r"(\d+) ?(ms|s|min|h)")
CHECKPOINT, BAD = "_checkpoint", "_bad"  # readers of parquet ignore names with an underscore


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """A pipeline from a queue to files, or to the terminal (format console)."""

    queue: str
    to: str | None = None
    format: str = "parquet"
    schema: str | None = None  # DDL of the JSON objects in ev_data; None keeps ev_data as it is
    consumer: str = "pipeline"
    checkpoint: str | None = None  # None: beside the data; temporary for the console
    bad_to: str | None = None  # None: beside the data
    available_now: bool = False  # write the events that are there, then end
    every: str = "10s"
    starting_offsets: str | None = None
    max_events: int = 1_000_000  # of a micro-batch; divides a long backlog
    partitions: int | None = None
    types: tuple[str, ...] = ()  # event types to write; () means all
    master: str | None = None

    @property
    def checkpoint_path(self) -> str | None:
        """The folder of Spark's checkpoint; None for a temporary one."""
        return self.checkpoint or self._beside(CHECKPOINT)

    @property
    def bad_path(self) -> str | None:
        """The folder for bad records; None for the console."""
        return self.bad_to or self._beside(BAD)

    def source_options(self) -> dict[str, str]:
        """Return the options of `format("pgq")`."""
        options = {
            "queue": self.queue,
            "consumer": self.consumer,
            "startingOffsets": self.starting_offsets,
            "maxEventsPerTrigger": self.max_events,
            "minPartitions": self.partitions,
        }
        return {name: str(value) for name, value in options.items() if value is not None}

    def trigger(self) -> dict[str, Any]:
        """Return the arguments of DataStreamWriter.trigger."""
        if self.available_now:
            return {"availableNow": True}
        return {"processingTime": spark_interval(self.every)}

    def describe(self) -> str:
        """Return one line that says what is read and where it is written."""
        if self.to is None:
            return f"{self.queue} to the terminal, as consumer {self.consumer}"
        places = f"bad records to {self.bad_path}, checkpoint in {self.checkpoint_path}"
        return f"{self.queue} to {self.to} as {self.format}, consumer {self.consumer}; {places}"

    def _beside(self, name: str) -> str | None:
        return None if self.to is None else f"{self.to.rstrip('/')}/{name}"


def spark_interval(text: str) -> str:
    """Return an interval in Spark's notation: "10s" is "10 seconds". ValueError if invalid."""
    found = INTERVAL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an interval: write 500ms, 10s, 5min or 1h")
    return f"{found[1]} {UNITS[found[2]]}"
