"""The tables of the overview and its details: columns, cells as text, orders. No I/O.

Names and error texts come from the database: every cell is escaped.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pgqpy import texts
from pgqpy.texts import duration, printable
from pgqpy.watch import ConsumerState, Count, QueueState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

State = TypeVar("State", QueueState, ConsumerState)
Sort = Literal["lag", "rate", "dead", "name"]
SORTS: tuple[Sort, ...] = ("lag", "rate", "dead", "name")
LONGEST_NAME = 64  # characters in a table: a whole name of a queue


class Column(NamedTuple):
    """A column: its heading, how its value is read from a row, and whether it is a number."""

    heading: str
    value: Callable[[Any], Any]
    is_number: bool = True


def number(value: int | None) -> str | None:
    """Write an id as it is typed in a command, without commas."""
    return None if value is None else str(value)


def _ticks(worker: Any) -> str | None:
    if worker.current_batch is None:
        return None
    return f"{worker.last_tick} to {worker.next_tick}"


def _process(holder: str | None) -> str | None:
    """Name a process by its run's token, host:pid:random, without the random part."""
    return (holder or "").rpartition(":")[0] or holder


QUEUES = (
    Column("queue", lambda queue: queue.name, is_number=False),
    Column("events/s", lambda queue: queue.events_per_second),
    Column("lag", lambda queue: queue.worst_lag),
    Column("pending", lambda queue: queue.pending_events),
    Column("dead", lambda queue: queue.dead_events),
    Column("retry", lambda queue: queue.retry_events),
    Column("ticks", lambda queue: queue.state, is_number=False),
    Column("parked", lambda queue: queue.parked_events),
    Column("delayed", lambda queue: queue.delayed_events),
    Column("size", lambda queue: size(queue.total_bytes)),
    Column("last tick", lambda queue: queue.tick_age),
    Column("furthest behind", lambda queue: queue.worst_consumer, is_number=False),
)
CONSUMERS = (
    Column("consumer", lambda consumer: consumer.name, is_number=False),
    Column("events/s", lambda consumer: consumer.events_per_second),
    Column("lag", lambda consumer: consumer.lag),
    Column("pending", lambda consumer: consumer.pending_events),
    Column("dead", lambda consumer: consumer.dead_events),
    Column("retry", lambda consumer: consumer.retry_events),
    Column("workers", lambda consumer: consumer.live_workers),
    Column("open", lambda consumer: consumer.open_batches),
    Column("parked", lambda consumer: consumer.parked_events),
    Column("last seen", lambda consumer: consumer.last_seen),
    Column("mode", lambda consumer: consumer.mode, is_number=False),
)
WORKERS = (
    Column("worker", lambda worker: worker.worker or "(itself)", is_number=False),
    Column("alive", lambda worker: worker.alive, is_number=False),
    Column("batch", lambda worker: number(worker.current_batch)),
    Column("ticks", _ticks, is_number=False),
    Column("attempt", lambda worker: worker.attempt),
    Column("last progress", lambda worker: worker.last_move),
    Column("last seen", lambda worker: worker.last_seen),
    Column("lease left", lambda worker: worker.lease_left),
    Column("session", lambda worker: number(worker.pid)),
    Column("process", lambda worker: _process(worker.holder), is_number=False),
)
DEAD = (
    Column("type", lambda count: count.ev_type, is_number=False),
    Column("error", lambda count: count.dead_error, is_number=False),
    Column("dead", lambda count: count.dead_events),
    Column("last", lambda count: count.last_dead_time, is_number=False),
)


def cells(columns: Iterable[Column], row: Any) -> list[str]:
    """Return the texts of one row."""
    return [text(column.value(row)) for column in columns]


def text(value: Any) -> str:
    """Format a value in one line: ``-`` for what is unknown."""
    if value is None:
        return "-"
    return next((write(value) for kind, write in _WRITERS if isinstance(value, kind)), str(value))


def _few_digits(value: float) -> str:
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"  # noqa: PLR2004  # two digits


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, lambda value: printable(value, LONGEST_NAME)),
    (bool, lambda value: "yes" if value else "no"),
    (int, "{:,}".format),
    (float, _few_digits),
    (timedelta, duration),
    (datetime, "{:%Y-%m-%d %H:%M:%S}".format),
)


def size(octets: int | None) -> str | None:
    """Format a number of bytes; None if it is unknown."""
    return None if octets is None else texts.size(octets)


def in_order(rows: Iterable[State], sort: Sort) -> list[State]:
    """Return queues or consumers, the worst first, or by name; what is unknown comes last."""
    by_name = sorted(rows, key=lambda row: row.name)
    keys: dict[Sort, Callable[[State], Any]] = {
        "lag": lambda row: _or_least(_lag(row), timedelta.min),
        "rate": lambda row: _or_least(row.events_per_second, -1.0),
        "dead": lambda row: _or_least(row.dead_events, Count(-1)),
    }
    return by_name if sort == "name" else sorted(by_name, key=keys[sort], reverse=True)


def _lag(row: QueueState | ConsumerState) -> timedelta | None:
    return row.worst_lag if isinstance(row, QueueState) else row.lag


def _or_least(value: Any, least: Any) -> Any:
    return least if value is None else value
