"""The options of the source: names, values, and error messages. Without I/O.

Options that work as in Spark's Kafka source have the same names.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from pgqpy.errors import InvalidArgument
from pgqpy.spark.database import Database
from pgqpy.spark.known_options import bool_option, check_known, queue_option
from pgqpy.spark.source.offsets import MAX_BIGINT, parse_tick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES = (
    "dsn",
    "service",
    "queue",
    "consumer",
    "archive",
    "types",
    "startingOffsets",
    "startingTick",
    "startingTimestamp",
    "endingOffsets",
    "endingTick",
    "endingTimestamp",
    "maxEventsPerTrigger",
    "maxTicksPerTrigger",
    "minPartitions",
    "failOnDataLoss",
)
ALIASES = {  # options of other sources, for the error message
    "maxoffsetspertrigger": "maxEventsPerTrigger",
    "subscribe": "queue",
    "kafka.group.id": "consumer",
    "numpartitions": "minPartitions",
    "pushdownpredicate": "types",
    "pushdownfilters": "types",
    "startingoffsetsbytimestamp": "startingTimestamp",
    "endingoffsetsbytimestamp": "endingTimestamp",
}
MAX_PARTITIONS = 10_000


class Bound(NamedTuple):
    """The start or the end of the range to read, and the option that set it."""

    kind: Literal["subscription", "earliest", "latest", "tick", "time"]
    tick: int = 0
    time: datetime | None = None
    option: str = ""


class ReadOptions(NamedTuple):
    """The options of a reader, checked. `consumer` is "" if the option is missing."""

    database: Database
    queue: str
    consumer: str
    types: tuple[str, ...] | None
    start: Bound | None
    end: Bound | None
    max_events: int | None
    max_ticks: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    archive: str | None


def read_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a reader; InvalidArgument if one is unknown, missing or invalid."""
    options = {key.lower(): value for key, value in spark_options.items()}
    check_known(options, NAMES, ALIASES, "there are")
    return ReadOptions(
        database=Database(options.get("dsn"), options.get("service")),
        queue=queue_option(options, '.load("orders")'),
        consumer=options.get("consumer", ""),
        types=_types(options),
        start=_one_of(options, STARTS),
        end=_one_of(options, ENDS),
        max_events=_count(options, "maxEventsPerTrigger"),
        max_ticks=_count(options, "maxTicksPerTrigger"),
        min_partitions=_count(options, "minPartitions", most=MAX_PARTITIONS),
        fail_on_data_loss=bool_option(options, "failOnDataLoss", default=True),
        archive=options.get("archive"),
    )


def stream_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a stream; InvalidArgument also for options that only a batch has."""
    options = read_options(spark_options)
    if not options.consumer:
        raise InvalidArgument(
            "option consumer is missing: name the consumer whose subscription keeps what this "
            "stream may read again, one for each query",
            parameter="consumer",
        )
    if options.end is not None:
        raise _only(options.end.option, "a stream has no end, trigger(availableNow=True) stops it")
    if options.archive is not None:
        raise _only("archive", "a stream begins at a tick that the queue has")
    return options._replace(start=options.start or Bound("subscription"))


def batch_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a batch read. Options that only a stream has are ignored."""
    options = read_options(spark_options)
    for bound, wrong, instead in (
        (options.start, ("subscription", "latest"), "earliest"),
        (options.end, ("subscription", "earliest"), "latest"),
    ):
        if bound is not None and bound.kind in wrong:
            raise _wrong(bound.option, f'"{instead}" or {{"tick": 21}} in a batch read', bound.kind)
    return options._replace(
        start=options.start or Bound("earliest"), end=options.end or Bound("latest")
    )


def _one_of(
    options: Mapping[str, str], parsers: Mapping[str, Callable[[str, str], Bound]]
) -> Bound | None:
    names = [name for name in parsers if name.lower() in options]
    if len(names) > 1:
        raise InvalidArgument(
            f"options {' and '.join(names)} exclude each other: give one of them",
            parameter=names[0],
        )
    bounds = (parsers[name](name, options[name.lower()])._replace(option=name) for name in names)
    return next(bounds, None)


def _offsets(words: tuple[str, ...], option: str, text: str) -> Bound:
    word = text.strip().lower()
    if word in words:
        return Bound(word)  # type: ignore[arg-type]  # one of the words
    tick = parse_tick(text)
    if tick is None:
        raise _wrong(option, f'{", ".join(words)} or {{"tick": 21}}', text)
    return Bound("tick", tick)


def _tick(option: str, text: str) -> Bound:
    return Bound("tick", _whole(option, text, 0))


def _time(option: str, text: str) -> Bound:
    """Parse milliseconds since 1970, as for Kafka, or ISO 8601 with an offset from UTC."""
    wanted = "milliseconds since 1970, or like 2026-11-21T15:00:00Z with its offset from UTC"
    try:
        if re.fullmatch(r"[0-9]+", text.strip()):
            return Bound("time", time=datetime.fromtimestamp(int(text) / 1000, timezone.utc))
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except (ValueError, OverflowError, OSError):
        raise _wrong(option, wanted, text) from None
    if found.tzinfo is None:
        raise _wrong(option, wanted, text)
    return Bound("time", time=found)


STARTS: Mapping[str, Callable[[str, str], Bound]] = {
    "startingOffsets": partial(_offsets, ("subscription", "earliest", "latest")),
    "startingTick": _tick,
    "startingTimestamp": _time,
}
ENDS: Mapping[str, Callable[[str, str], Bound]] = {
    "endingOffsets": partial(_offsets, ("latest",)),
    "endingTick": _tick,
    "endingTimestamp": _time,
}


def _types(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Split a list such as ``order.*, invoice``; the server checks the names and prefixes."""
    if "types" not in options:
        return None
    names = tuple(name.strip() for name in options["types"].split(","))
    if not all(names):
        raise _wrong(
            "types", 'a list of types and prefixes like "order.*,invoice"', options["types"]
        )
    return names


def _count(options: Mapping[str, str], name: str, *, most: int = MAX_BIGINT) -> int | None:
    text = options.get(name.lower())
    return None if text is None else _whole(name, text, 1, most)


def _whole(name: str, text: str, least: int, most: int = MAX_BIGINT) -> int:
    number = int(text) if re.fullmatch(r"\s*[0-9]{1,19}\s*", text) else -1
    if not least <= number <= most:
        raise _wrong(name, f"a whole number from {least} to {most}", text)
    return number


def _wrong(name: str, wanted: str, value: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} must be {wanted}, not {value!r}", parameter=name)


def _only(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} is for batch reads, {why}: leave it out", parameter=name)
