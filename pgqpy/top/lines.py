"""The lines above the tables: problems, and details of queues and consumers. No I/O.

Names and error texts come from the database: every line is escaped.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from pgqpy.texts import duration, noun, printable
from pgqpy.top.columns import number, size, text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pgqpy.doctor import Finding
    from pgqpy.watch import ConsumerState, QueueState, Snapshot


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
    rate = sum(queue.events_per_second or 0.0 for queue in snapshot.queues)
    parts = [
        text(snapshot.database),
        f"{len(snapshot.queues):,} queue(s)",
        f"{len(snapshot.consumers):,} consumer(s)",
        f"{text(rate)} events/s",
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

    `patience`: seconds after the last data from which a look counts as one without an answer.
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
    assert snapshot.taken is not None  # noqa: S101  # the callers have looked
    return _seconds(now - snapshot.taken)


def _seconds(age: timedelta) -> str:
    return duration(timedelta(seconds=max(int(age.total_seconds()), 0)))


def queue_lines(snapshot: Snapshot, queue: QueueState) -> list[str]:
    """Describe a queue in lines, and the consumers that its rotation waits for."""
    lines = [
        f"ticks: {queue.state}, the last {text(number(queue.last_tick))}, {_ago(queue.tick_age)}",
        (
            f"events: {text(queue.events_per_second)}/s, {text(queue.new_events)} since the last "
            f"tick, {text(queue.delayed_events)} delayed, {text(size(queue.total_bytes))}"
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
    return [
        (
            f"mode: {text(consumer.mode)}{detached}; at tick {text(number(consumer.last_tick))}, "
            f"last seen {_ago(consumer.last_seen)}"
        ),
        (
            f"lag: {text(consumer.lag)}, {text(consumer.pending_events)} "
            f"{noun(consumer.pending_events, 'pending event')}, "
            f"{text(consumer.events_per_second)}/s finished"
        ),
        (
            f"workers: {text(consumer.live_workers)}; open batches: {text(consumer.open_batches)}, "
            f"the longest without progress for {text(consumer.oldest_batch)}"
        ),
        (
            f"retry: {text(consumer.retry_events)}; dead: {text(consumer.dead_events)}; "
            f"parked: {text(consumer.parked_events)} of {text(consumer.parked_keys)} "
            f"{noun(consumer.parked_keys, 'key')}, "
            f"the first for {text(consumer.parked_for)}"
        ),
    ]


def _ago(age: timedelta | None) -> str:
    return "-" if age is None else f"{duration(age)} ago"
