"""What one poll of a database found: the records that dashboard and ``pgqpy top`` show. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pgqpy.doctor import Finding
    from pgqpy.records import DeadEventCount, StalledInfo, WorkerInfo


def shown_lag(lag: timedelta | None, pending_events: int | None) -> timedelta | None:
    """Return the age of the last finished tick, 0 while no event is pending.

    The age itself, which `get_consumer_info` and the metrics have, grows on an idle queue too.
    """
    return timedelta(0) if pending_events == 0 else lag


COUNTED = 10_000  # events: a count stops there, so that a million of them cost little

# ok: ticked in time. late: a ticker runs, but this queue waits. skipped: another session has locked
# the queue, or waits for its lock. no ticker: none runs. external: another program ticks it.
TickState = Literal["ok", "late", "skipped", "paused", "external", "no ticker"]


@dataclass(frozen=True, slots=True, order=True)
class Count:
    """A number of events that was counted up to a limit; as text ``10,000+`` if there are more.

    Exactly as many as the limit count as more: nobody has counted them.
    """

    number: int
    more: bool = False

    @classmethod
    def up_to(cls, number: int, limit: int = COUNTED) -> Count:
        """Return a count that stopped at `limit`."""
        return cls(number, number >= limit)

    def __add__(self, other: Count) -> Count:
        return Count(self.number + other.number, self.more or other.more)

    def __bool__(self) -> bool:
        return self.number > 0

    def __str__(self) -> str:
        return f"{self.number:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue. A value that cannot be seen, or not yet, is None.

    Attributes:
        events_per_second: inserted since the previous poll; at the first poll, over the last 20
            ticks. Ids that a transaction used and rolled back count too.
        tick_age: of the last tick.
        new_events: since the last tick.
        worst_lag: the largest lag, of `worst_consumer`; detached ones are left out.
        pending_events: of the consumer that has most.
        total_bytes: its event tables on disk; read once a minute at most.
    """

    name: str
    state: TickState
    last_tick: int | None
    tick_age: timedelta | None
    new_events: int | None
    events_per_second: float | None
    consumers: int
    worst_consumer: str | None
    worst_lag: timedelta | None
    pending_events: int | None
    retry_events: Count | None
    dead_events: Count | None
    parked_events: Count | None
    delayed_events: Count | None
    delayed_overdue: timedelta | None
    rotation_period: timedelta
    rotation_age: timedelta | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer of a queue; its workers and lanes are WorkerInfo, which the snapshot has too.

    Attributes:
        mode: plain, shared or lanes; None until the first run.
        lag: the age of the last finished tick; 0 while no event is pending. The oldest waiting
            event has been visible for at most that time.
        events_per_second: finished since the previous poll; None at the first one.
        live_workers: sessions, and leases that have not ended, that work for it; None: unknown.
        open_batches: also those of its workers, and leases of receivers.
        oldest_batch: the longest time without progress of an open batch.
        detached: since when; None: rotation waits for it.
    """

    queue: str
    name: str
    mode: str | None
    lag: timedelta | None
    last_seen: timedelta | None
    last_tick: int | None
    pending_events: int | None
    events_per_second: float | None
    retry_events: Count | None
    dead_events: Count | None
    parked_events: Count | None
    parked_keys: Count | None
    parked_for: timedelta | None
    live_workers: int | None
    open_batches: int | None
    oldest_batch: timedelta | None
    detached: datetime | None


@dataclass(frozen=True, slots=True)
class TickerDaemon:
    """A ticker daemon of the database; what another role's session hides is None.

    Attributes:
        active: it has the ticker's lock; the others stand by.
        pid: of its server process.
        may_tick: whether its role may tick: one that holds the lock and may not keeps all others
            from ticking.
    """

    active: bool
    pid: int | None
    application: str | None
    role: str | None
    address: str | None
    since: datetime | None
    may_tick: bool | None


@dataclass(frozen=True, slots=True)
class DeadEvents:
    """A consumer's dead events by type and class of exception, the most frequent first.

    The newest 10,000 are counted; with `more` there are older ones.
    """

    counts: tuple[DeadEventCount, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is no new data: since when (this machine's clock), and an error text in one line.

    `connected` is False if the database could not be reached, or the connection was lost.
    """

    since: datetime
    what: str
    connected: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the last poll found. While the database does not answer, the last data stay.

    Names, error texts and findings come from the database: escape them before they are shown.

    Attributes:
        database: its name; empty before the first answer.
        taken: when the data were read, by this machine's clock; None: never yet.
        took: how many seconds that lasted.
        no_answer: None: the last poll succeeded.
        queues: by name.
        consumers: by queue and name, without subconsumers: these are workers.
        workers: of all consumers, a row of the consumer itself (worker None) before its workers.
        stalled: the consumers that rotation waits for, and the detached ones.
        tickers: the active one first; pgqd, which holds no lock, is not among them.
        findings: of doctor, the worst first, those that are ok too.
        examined: when the findings were made, by this machine's clock; None: never yet.
        checking: whether the checks run now, so that new findings follow.
    """

    database: str = ""
    taken: datetime | None = None
    took: float = 0.0
    no_answer: NoAnswer | None = None
    queues: tuple[QueueState, ...] = ()
    consumers: tuple[ConsumerState, ...] = ()
    workers: tuple[WorkerInfo, ...] = ()
    stalled: tuple[StalledInfo, ...] = ()
    tickers: tuple[TickerDaemon, ...] = ()
    findings: tuple[Finding, ...] = ()
    examined: datetime | None = None
    checking: bool = False

    def queue(self, name: str) -> QueueState | None:
        """Return a queue; None if it is not there."""
        return next((each for each in self.queues if each.name == name), None)

    def consumer(self, queue: str, name: str) -> ConsumerState | None:
        """Return a consumer; None if it is not there."""
        of_queue = self.consumers_of(queue)
        return next((each for each in of_queue if each.name == name), None)

    def consumers_of(self, queue: str) -> tuple[ConsumerState, ...]:
        """Return the consumers of a queue."""
        return tuple(each for each in self.consumers if each.queue == queue)

    def workers_of(self, queue: str, consumer: str) -> tuple[WorkerInfo, ...]:
        """Return the workers and lanes of a consumer, after the row of the consumer itself."""
        names = (queue, consumer)
        return tuple(each for each in self.workers if each[:2] == names)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that fail or warn, the worst first."""
        return tuple(each for each in self.findings if each.level in {"fail", "warn"})


def total(counts: Iterable[Count | None]) -> Count | None:
    """Add counts; None if one of them is unknown."""
    sum_ = Count(0)
    for each in counts:
        if each is None:
            return None
        sum_ += each
    return sum_
