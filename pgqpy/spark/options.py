"""The options of the source and the sink, and the offsets that Spark keeps. Without I/O."""

from __future__ import annotations

import difflib
import json
import re
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pgqpy.errors import InvalidArgument
from pgqpy.spark.connections import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# In lower case. They are Spark's: accepted; `path` may name the queue, the others are ignored.
SPARK_OPTIONS = {"path", "checkpointlocation", "queryname", "mergeschema"}
# Options of other sources and sinks, for the error message.
COMMON_ALIASES = {
    "topic": "queue",
    "dbtable": "queue",
    "url": "dsn",
    "kafka.bootstrap.servers": "dsn",
}


def check_known(
    options: Mapping[str, str], names: Sequence[str], aliases: Mapping[str, str], intro: str
) -> None:
    """Raise InvalidArgument for an option that is not in `names`, with the nearest known name.

    Args:
        options: their keys are in lower case.
        names: of all options.
        aliases: more names from other sources and sinks -> our name.
        intro: words before the list of all names, in the error message.
    """
    known = {name.lower(): name for name in names}
    for key in options:
        if key in known or key in SPARK_OPTIONS or key.startswith("spark."):
            continue
        near = difflib.get_close_matches(key, known, 1)
        nearest = {**COMMON_ALIASES, **aliases}.get(key) or (known[near[0]] if near else None)
        remedy = f"did you mean {nearest}?" if nearest else f"{intro} {', '.join(names)}"
        raise InvalidArgument(f"unknown option {key}: {remedy}", parameter=key)


def queue_option(options: Mapping[str, str], shorter: str) -> str:
    """Return the queue from the option `queue` or `path`; InvalidArgument if both are missing."""
    queue = options.get("queue") or options.get("path") or ""
    if not queue:
        raise InvalidArgument(
            f'option queue is missing: .option("queue", "orders"), or {shorter}',
            parameter="queue",
        )
    return queue


def bool_option(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option as a bool; InvalidArgument unless it is true or false."""
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        value = options[name.lower()]
        raise InvalidArgument(f"option {name} must be true or false, not {value!r}", parameter=name)
    return text == "true"


MAX_BIGINT = 2**63 - 1


class Offset(NamedTuple):
    """A tick of a queue, and the consumer whose subscription keeps the events after it.

    The queue's id reveals that the queue was dropped and created again under the same name. The
    tick's time reveals that the server lost the tick and gave its number again: after a failover to
    a standby that lagged, or a restore. Spark writes `_asdict()` to the checkpoint.
    """

    consumer: str
    queue_id: int
    tick: int
    time: str  # in UTC, as tick_ranges.find_tick_times returns it


def parse_offsets(written: Mapping[str, Any]) -> dict[int, Offset]:
    """Return the offsets of a checkpoint, by queue id. Spark has them by the queues' names.

    Raises:
        InvalidArgument: another source wrote them.
    """
    try:
        found = [
            Offset(
                str(each["consumer"]), int(each["queue_id"]), int(each["tick"]), str(each["time"])
            )
            for each in written.values()
        ]
    except (KeyError, TypeError, ValueError):
        found = []
    if not found:
        raise InvalidArgument(
            f"the checkpoint holds {dict(written)!r}, which is not an offset of a queue: "
            "another source wrote it, so give this query a checkpointLocation of its own",
            parameter="checkpointLocation",
        )
    return {each.queue_id: each for each in sorted(found, key=lambda each: each.queue_id)}


def parse_ticks(text: str) -> dict[str, int] | None:
    """Return the ticks of `{"orders": 21}` or of a whole offset; None for any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    ticks = {}
    for name, each in value.items():
        tick = each.get("tick") if isinstance(each, dict) else each
        if not isinstance(tick, int) or isinstance(tick, bool) or not 0 <= tick <= MAX_BIGINT:
            return None
        ticks[name] = tick
    return ticks


# Options that work as in Spark's Kafka source have the same names.
SOURCE_NAMES = (
    "dsn",
    "service",
    "queue",
    "consumer",
    "types",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxEventsPerTrigger",
    "maxTicksPerTrigger",
    "minPartitions",
    "failOnDataLoss",
)
SOURCE_ALIASES = {  # options of other sources, and of earlier versions, for the error message
    "startingtick": 'startingOffsets={"orders": 21}',
    "endingtick": 'endingOffsets={"orders": 42}',
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

    kind: Literal["subscription", "earliest", "latest", "ticks", "time"]
    ticks: Mapping[str, int] | None = None  # by the queues' names
    time: datetime | None = None
    option: str = ""

    def covers(self, queue: str) -> bool:
        """Return whether the option says it for this queue."""
        return self.ticks is None or queue in self.ticks


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


def read_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a reader; InvalidArgument if one is unknown, missing or invalid."""
    options = {key.lower(): value for key, value in spark_options.items()}
    check_known(options, SOURCE_NAMES, SOURCE_ALIASES, "there are")
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
    return options._replace(start=options.start or Bound("subscription"))


def batch_options(spark_options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a batch read. Options that only a stream has are ignored."""
    options = read_options(spark_options)
    for bound, wrong, instead in (
        (options.start, ("subscription", "latest"), "earliest"),
        (options.end, ("subscription", "earliest"), "latest"),
    ):
        if bound is not None and bound.kind in wrong:
            raise _wrong(
                bound.option, f'"{instead}" or {{"orders": 21}} in a batch read', bound.kind
            )
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
    ticks = parse_ticks(text)
    if ticks is None:
        raise _wrong(option, f'{", ".join(words)} or ticks of queues, {{"orders": 21}}', text)
    return Bound("ticks", ticks)


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
    "startingTimestamp": _time,
}
ENDS: Mapping[str, Callable[[str, str], Bound]] = {
    "endingOffsets": partial(_offsets, ("latest",)),
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
    if text is None:
        return None
    number = int(text) if re.fullmatch(r"\s*[0-9]{1,19}\s*", text) else 0
    if not 1 <= number <= most:
        raise _wrong(name, f"a whole number from 1 to {most}", text)
    return number


def _wrong(name: str, wanted: str, value: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} must be {wanted}, not {value!r}", parameter=name)


def _only(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} is for batch reads, {why}: leave it out", parameter=name)


SINK_NAMES = ("dsn", "service", "queue", "mode", "eventType", "failOnChangedEpoch")
MODES = ("exactly_once", "at_least_once")


class SinkOptions(NamedTuple):
    """The options of a writer, checked. `event_type` is None if the option is missing."""

    database: Database
    queue: str
    exactly_once: bool
    event_type: str | None
    fail_on_changed_epoch: bool


def sink_options(spark_options: Mapping[str, str]) -> SinkOptions:
    """Check the options of a writer; InvalidArgument if one is unknown, missing or invalid."""
    options = {key.lower(): value for key, value in spark_options.items()}
    check_known(options, SINK_NAMES, {"type": "eventType"}, "a writer has")
    mode = options.get("mode", MODES[0]).strip().lower()
    if mode not in MODES:
        raise InvalidArgument(
            f"option mode must be {' or '.join(MODES)}, not {mode!r}", parameter="mode"
        )
    return SinkOptions(
        database=Database(options.get("dsn"), options.get("service")),
        queue=queue_option(options, '.save("orders")'),
        exactly_once=mode == MODES[0],
        event_type=options.get("eventtype"),
        fail_on_changed_epoch=bool_option(options, "failOnChangedEpoch", default=True),
    )


def overwrite_refused(remedy: str) -> InvalidArgument:
    """Return the error for the save mode overwrite and the output mode complete."""
    return InvalidArgument(
        "a queue cannot be overwritten, its events stay until every consumer has had them: "
        + remedy,
        parameter="mode",
    )
