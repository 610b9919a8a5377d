"""The options of a reader: what they are called, what they may be, and what is said if not. Pure.

They are named after those of Spark's source for Kafka, where they do the same.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal, NamedTuple

from pgqpy.errors import InvalidArgument
from pgqpy.spark.database import Place, place_of
from pgqpy.spark.known_options import Known, flag, queue_of
from pgqpy.spark.source.offsets import MOST, tick_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES = (
    "dsn",
    "service",
    "queue",
    "consumer",
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
    "pushDownFilters",
)
SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "mergeschema"})
ELSEWHERE = {  # what users of other sources would try
    "maxoffsetspertrigger": "maxEventsPerTrigger",
    "subscribe": "queue",
    "topic": "queue",
    "kafka.bootstrap.servers": "dsn",
    "kafka.group.id": "consumer",
    "url": "dsn",
    "dbtable": "queue",
    "numpartitions": "minPartitions",
    "pushdownpredicate": "pushDownFilters",
    "startingoffsetsbytimestamp": "startingTimestamp",
    "endingoffsetsbytimestamp": "endingTimestamp",
}
KNOWN = Known(NAMES, SPARKS_OWN, ELSEWHERE, "there are")
MOST_PARTITIONS = 10_000


class Bound(NamedTuple):
    """One end of what is read, and the option that named it."""

    kind: Literal["subscription", "earliest", "latest", "tick", "time"]
    tick: int = 0
    time: datetime | None = None
    option: str = ""


class ReadOptions(NamedTuple):
    """What a reader was asked for. `consumer` is "" where none was named."""

    place: Place
    queue: str
    consumer: str
    start: Bound | None
    end: Bound | None
    max_events: int | None
    max_ticks: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    push_down_filters: bool


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read all options, of a stream or a batch.

    Raises:
        InvalidArgument: an option does not exist, is missing or makes no sense; says what to do.
    """
    options = {key.lower(): value for key, value in given.items()}
    KNOWN.check(options)
    return ReadOptions(
        place=place_of(options),
        queue=queue_of(options, '.load("orders")'),
        consumer=options.get("consumer", ""),
        start=_one_of(options, STARTS),
        end=_one_of(options, ENDS),
        max_events=_count(options, "maxEventsPerTrigger"),
        max_ticks=_count(options, "maxTicksPerTrigger"),
        min_partitions=_count(options, "minPartitions", most=MOST_PARTITIONS),
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        push_down_filters=flag(options, "pushDownFilters", default=False),
    )


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    """Read the options of a stream; InvalidArgument also for those that only a batch has."""
    options = read_options(given)
    if not options.consumer:
        raise InvalidArgument(
            "option consumer is missing: name the consumer whose subscription keeps what this "
            "stream may read again, one for each query",
            parameter="consumer",
        )
    if options.end is not None:
        raise _only(options.end.option, "a stream has no end, trigger(availableNow=True) stops it")
    if options.push_down_filters:
        raise _only("pushDownFilters", "Spark pushes no filters into streams")
    return options._replace(start=options.start or Bound("subscription"))


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Read the options of a batch read; those that only a stream has say nothing here."""
    options = read_options(given)
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
    options: Mapping[str, str], readers: Mapping[str, Callable[[str], Bound]]
) -> Bound | None:
    given = [name for name in readers if name.lower() in options]
    if len(given) > 1:
        raise InvalidArgument(
            f"options {' and '.join(given)} exclude each other: give one of them",
            parameter=given[0],
        )
    return next(
        (readers[name](options[name.lower()])._replace(option=name) for name in given), None
    )


def _starting_offsets(text: str) -> Bound:
    return _offsets("startingOffsets", text, ("subscription", "earliest", "latest"))


def _ending_offsets(text: str) -> Bound:
    return _offsets("endingOffsets", text, ("latest",))


def _offsets(option: str, text: str, words: tuple[str, ...]) -> Bound:
    word = text.strip().lower()
    if word in words:
        return Bound(word)  # type: ignore[arg-type]  # one of the words
    tick = tick_of(text)
    if tick is None:
        raise _wrong(option, f'{", ".join(words)} or {{"tick": 21}}', text)
    return Bound("tick", tick)


def _starting_tick(text: str) -> Bound:
    return Bound("tick", _whole("startingTick", text, 0))


def _ending_tick(text: str) -> Bound:
    return Bound("tick", _whole("endingTick", text, 0))


def _starting_timestamp(text: str) -> Bound:
    return Bound("time", time=_time("startingTimestamp", text))


def _ending_timestamp(text: str) -> Bound:
    return Bound("time", time=_time("endingTimestamp", text))


STARTS = {
    "startingOffsets": _starting_offsets,
    "startingTick": _starting_tick,
    "startingTimestamp": _starting_timestamp,
}
ENDS = {
    "endingOffsets": _ending_offsets,
    "endingTick": _ending_tick,
    "endingTimestamp": _ending_timestamp,
}


def _time(option: str, text: str) -> datetime:
    """Read milliseconds since 1970, as for Kafka, or ISO 8601 with its offset from UTC."""
    wanted = "milliseconds since 1970, or like 2026-11-21T15:00:00Z with its offset from UTC"
    try:
        if re.fullmatch(r"[0-9]+", text.strip()):
            return datetime.fromtimestamp(int(text) / 1000, timezone.utc)
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except (ValueError, OverflowError, OSError):
        raise _wrong(option, wanted, text) from None
    if found.tzinfo is None:
        raise _wrong(option, wanted, text)
    return found


def _count(options: Mapping[str, str], name: str, *, most: int = MOST) -> int | None:
    text = options.get(name.lower())
    return None if text is None else _whole(name, text, 1, most)


def _whole(name: str, text: str, least: int, most: int = MOST) -> int:
    number = int(text) if re.fullmatch(r"\s*[0-9]{1,19}\s*", text) else -1
    if not least <= number <= most:
        raise _wrong(name, f"a whole number from {least} to {most}", text)
    return number


def _wrong(name: str, wanted: str, given: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} must be {wanted}, not {given!r}", parameter=name)


def _only(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"option {name} is for batch reads, {why}: leave it out", parameter=name)
