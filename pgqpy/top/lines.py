"""What the screens show as text: columns, cells, orders, and the lines above the tables. No I/O.

Names and error texts come from the database: every cell and line is escaped.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from rich.console import Console
from rich.text import Text

from pgqpy.texts import duration, noun, printable, rate, size
from pgqpy.watch import ConsumerState, Count, QueueState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pgqpy.doctor import Finding
    from pgqpy.watch import Snapshot

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


QUEUES = (
    Column("queue", lambda queue: queue.name, is_number=False),
    Column("events/s", lambda queue: queue.events_per_second),
    Column("lag", lambda queue: queue.worst_lag),
    Column("pending", lambda queue: queue.pending_events),
    Column("dead", lambda queue: queue.dead_events),
    Column("retry", lambda queue: queue.retry_events),
    Column("ticks", lambda queue: queue.state, is_number=False),
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
    Column("in flight", lambda consumer: consumer.in_flight),
    Column("processes", lambda consumer: consumer.processes),
    Column("last seen", lambda consumer: consumer.last_seen),
    Column("mode", lambda consumer: consumer.mode, is_number=False),
)
HOLDERS = (
    Column("process", lambda holder: holder.name or "(receivers)", is_number=False),
    Column("claimed", lambda holder: holder.events),
    Column("oldest claim", lambda holder: holder.oldest_claim),
    Column("since", lambda holder: holder.since),
    Column("lease until", lambda holder: holder.lease_until),
)


def cells(columns: Iterable[Column], row: Any) -> list[str]:
    """Return the texts of one row."""
    return [text(column.value(row)) for column in columns]


def text(value: Any) -> str:
    """Format a value in one line: ``-`` for what is unknown."""
    if value is None:
        return "-"
    return next((write(value) for kind, write in _WRITERS if isinstance(value, kind)), str(value))


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, lambda value: printable(value, LONGEST_NAME)),
    (bool, lambda value: "yes" if value else "no"),
    (int, "{:,}".format),
    (float, rate),
    (timedelta, duration),
    (datetime, "{:%Y-%m-%d %H:%M:%S}".format),
)


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


def problem_lines(findings: Iterable[Finding]) -> list[str]:
    """Say what is wrong: two lines for each finding, the second one with what mends it."""
    lines = []
    for found in findings:
        lines.append(f"{found.level.upper():<4} {found.check}: {printable(found.what)}")
        if found.remedy:
            lines.append(f"     -> {printable(found.remedy)}")
    return lines


def fitting(findings: Iterable[Finding], width: int, height: int) -> int:
    """Return how many findings fit into so many lines, with one to say that there are more.

    At least one: the worst is shown, though its end may be cut.
    """
    console, left, count = Console(width=max(width, 1)), height, 0
    found = list(findings)
    for each in found:
        lines = problem_lines([each])
        left -= sum(len(Text(line).wrap(console, console.width)) for line in lines)
        if left < (count + 1 < len(found)):
            break
        count += 1
    return max(count, 1)


def headline(snapshot: Snapshot) -> str:
    """Sum the database up in one line."""
    if snapshot.taken is None:
        return "no data yet"
    speed = sum(queue.events_per_second or 0.0 for queue in snapshot.queues)
    parts = [
        text(snapshot.database),
        f"{len(snapshot.queues):,} queue(s)",
        f"{len(snapshot.consumers):,} consumer(s)",
        f"{rate(speed)} events/s",
        _ticker(snapshot),
    ]
    return "  ".join(parts)


def _ticker(snapshot: Snapshot) -> str:
    active = next((each for each in snapshot.tickers if each.active), None)
    standbys = sum(not each.active for each in snapshot.tickers)
    more = f" + {standbys} standby" if standbys else ""
    if active is None:
        return f"no active ticker{more}"
    return f"ticked by {text(active.application or number(active.pid))}{more}"


def answer_line(snapshot: Snapshot, now: datetime, patience: float) -> str | None:
    """Say that the database does not answer, and how old the data are; None: it answers.

    `patience`: seconds after the last data from which a poll counts as one without an answer.
    """
    if snapshot.no_answer is not None:
        for_how_long = _seconds(now - snapshot.no_answer.since)
        what = printable(snapshot.no_answer.what)
        of_data = f"; data of {_age(snapshot, now)} ago" if snapshot.taken else ""
        word = "no data" if snapshot.no_answer.connected else "no answer"
        return f"{word} for {for_how_long}{of_data}: {what}"
    if snapshot.taken is not None and now - snapshot.taken > timedelta(seconds=patience):
        return f"no answer yet; data of {_age(snapshot, now)} ago"
    return None


def _age(snapshot: Snapshot, now: datetime) -> str:
    assert snapshot.taken is not None  # noqa: S101  # the callers have checked
    return _seconds(now - snapshot.taken)


def _seconds(age: timedelta) -> str:
    return duration(timedelta(seconds=max(int(age.total_seconds()), 0)))


def queue_lines(snapshot: Snapshot, queue: QueueState) -> list[str]:
    """Describe a queue in lines, and the consumers that its rotation waits for."""
    lines = [
        f"ticks: {queue.state}, the last {text(number(queue.last_tick))}, {_ago(queue.tick_age)}",
        (
            f"events: {text(queue.events_per_second)}/s, {text(queue.new_events)} since the last "
            f"tick, {text(queue.delayed_events)} delayed, {size(queue.total_bytes)}"
        ),
        f"rotation: every {duration(queue.rotation_period)}, the last {_ago(queue.rotation_age)}",
    ]
    for stalled in snapshot.stalled:
        if stalled.queue == queue.name:
            name = text(stalled.consumer)
            lines.append(
                f"consumer {name} is detached: rotation does not wait for it"
                if stalled.detached
                else f"rotation waits for consumer {name}, {text(stalled.held_for)} behind"
            )
    return lines


def consumer_lines(consumer: ConsumerState) -> list[str]:
    """Describe a consumer in lines."""
    detached = f", detached since {text(consumer.detached)}" if consumer.detached else ""
    lines = [
        (
            f"mode: {text(consumer.mode)}{detached}; at tick {text(number(consumer.last_tick))}, "
            f"last seen {_ago(consumer.last_seen)}"
        ),
        (
            f"lag: {text(consumer.lag)}, {text(consumer.pending_events)} "
            f"{noun(consumer.pending_events, 'pending event')}, "
            f"{text(consumer.events_per_second)}/s finished"
        ),
        f"retry: {text(consumer.retry_events)}; dead: {text(consumer.dead_events)}",
    ]
    found = consumer.inflight
    if found is None:
        return [
            *lines,
            f"processes: {text(consumer.processes)}; open batch: {text(number(consumer.batch))}",
        ]
    return [
        *lines,
        (
            f"in flight: {found.fresh:,} fresh, {found.returned:,} returned, {found.claimed:,} "
            f"claimed, {found.delayed:,} delayed, {found.waiting:,} waiting, "
            f"{found.in_pieces:,} in pieces"
        ),
        (
            f"the oldest that may be claimed: {text(found.oldest)}; the oldest claim: "
            f"{text(found.oldest_claim)}; the front is {text(found.lag)} behind; "
            f"{found.suspects:,} suspect, {found.crashes:,} {noun(found.crashes, 'crash')}"
        ),
    ]


def _ago(age: timedelta | None) -> str:
    return "-" if age is None else f"{duration(age)} ago"
