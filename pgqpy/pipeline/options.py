"""The options of a pipeline, and the options of Spark that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pgqpy.errors import InvalidArgument

UNITS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}
INTERVAL = re.compile(r"(\d+) ?(ms|s|min|h)")
TABLES = ("delta", "iceberg")  # formats
INFER = "infer"  # as the schema
# Readers of parquet ignore names with an underscore.
CHECKPOINT, BAD, SCHEMA = "_checkpoint", "_bad", "_schema.ddl"


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """A pipeline from a queue to files, or to the terminal (format console)."""

    queue: str
    to: str | None = None
    format: str = "parquet"
    catalog: str | None = None  # of Iceberg, as pyiceberg's configuration names it
    partition_by: str | None = None  # of a table: a column, or day
    evolve: str | None = None  # "add" adds columns to the table
    schema: str | None = None  # DDL of the objects in ev_data, or "infer"; None keeps ev_data
    rescue: bool = False  # keep the fields that the schema does not name, as JSON
    capture: bool = False  # the events are changes of captured tables: columns of their parts
    consumer: str = "pipeline"
    checkpoint: str | None = None  # None: beside the data; temporary for the console and tables
    bad_to: str | None = None  # None: beside the data
    available_now: bool = False  # write the events that are there, then end
    every: str = "10s"
    starting_offsets: str | None = None
    max_events: int = 1_000_000  # of a micro-batch; divides a long backlog
    partitions: int | None = None
    types: tuple[str, ...] = ()  # event types and prefixes like "order.*"; () means all
    master: str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidArgument if options do not go together."""
        if self.rescue and self.schema is None:
            raise refused("rescue", "it keeps the fields that --schema does not name: add --schema")
        # The beginnings of the types public.item.* and public.item.insert name the same table.
        tables = {kind.rpartition(".")[0] for kind in self.types}
        if self.capture and self.schema == INFER and (len(tables) != 1 or "." not in tables.pop()):
            raise refused("schema", "infer: a schema fits one table: add --type 'shop.orders.*'")
        if not self.is_table and (self.partition_by or self.evolve):
            name = "partition-by" if self.partition_by else "evolve"
            raise refused(name, "it is for tables: --format delta or --format iceberg")
        if self.catalog is not None and self.format != "iceberg":
            raise refused("catalog", "it is for --format iceberg")

    @property
    def is_table(self) -> bool:
        """Whether the format is one of tables, which keep the offset."""
        return self.format in TABLES

    @property
    def checkpoint_path(self) -> str | None:
        """The folder of Spark's checkpoint; None for a temporary one."""
        return None if self.is_table else self.checkpoint or self._beside(CHECKPOINT)

    @property
    def bad_path(self) -> str | None:
        """The folder for bad records; None for the console."""
        return self.bad_to or self._beside(BAD)

    @property
    def schema_path(self) -> str | None:
        """The file of inferred columns; None for the console."""
        if self.catalog is None:
            return self._beside(SCHEMA)
        return None if self.bad_to is None else f"{self.bad_to.rstrip('/')}/{SCHEMA}"

    @property
    def file_format(self) -> str:
        """The format of the files with bad records."""
        return "parquet" if self.is_table else self.format

    def source_options(self) -> dict[str, str]:
        """Return the options of `format("pgq")`."""
        options = {
            "queue": self.queue,
            "consumer": self.consumer,
            "startingOffsets": self.starting_offsets,
            "maxEventsPerTrigger": self.max_events,
            "minPartitions": self.partitions,
            "types": ",".join(self.types) or None,
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
        places = f"bad records to {self.bad_path}"
        if self.checkpoint_path is not None:
            places += f", checkpoint in {self.checkpoint_path}"
        return f"{self.queue} to {self.to} as {self.format}, consumer {self.consumer}; {places}"

    def _beside(self, name: str) -> str | None:
        if self.to is None or self.catalog is not None:  # the name of a table is no place for files
            return None
        return f"{self.to.rstrip('/')}/{name}"


def refused(option: str, why: str) -> InvalidArgument:
    """Return the error for an option of the command, such as `to`."""
    return InvalidArgument(f"--{option}: {why}", parameter=option)


def spark_interval(text: str) -> str:
    """Return an interval in Spark's notation: "10s" is "10 seconds". ValueError if invalid."""
    found = INTERVAL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an interval: write 500ms, 10s, 5min or 1h")
    return f"{found[1]} {UNITS[found[2]]}"
