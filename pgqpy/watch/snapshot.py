"""What one poll of a database found, for dashboard and ``pgqpy top``: its queries and records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from psycopg import errors
from psycopg.rows import dict_row

from pgqpy import calls, locks
from pgqpy.consumers.missing_ticker import is_late
from pgqpy.errors import SchemaMissing, WrongMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from typing_extensions import LiteralString

    from pgqpy import Client
    from pgqpy.doctor import Finding
    from pgqpy.records import (
        ConsumerCounts,
        ConsumerInfo,
        DelayedCount,
        Holder,
        InflightInfo,
        QueueInfo,
        Registration,
        StalledInfo,
    )

    T = TypeVar("T")


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
    delayed_events: Count | None
    delayed_overdue: timedelta | None
    rotation_period: timedelta
    rotation_age: timedelta | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer of a queue.

    Attributes:
        mode: plain or shared.
        lag: the age of the last finished tick; 0 while no event is pending. The oldest waiting
            event has been visible for at most that time.
        events_per_second: finished since the previous poll; None at the first one.
        processes: sessions that run it, or holders of a shared one; None: unknown.
        batch: the open one of a plain consumer; `batch_end` is its tick.
        inflight: what a shared one has in flight; None: it is plain, or this is unknown.
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
    processes: int | None
    batch: int | None
    batch_end: int | None
    inflight: InflightInfo | None
    detached: datetime | None

    @property
    def in_flight(self) -> int | None:
        """How many events a shared consumer has in flight."""
        return None if self.inflight is None else self.inflight.total


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
        consumers: by queue and name, without subconsumers.
        holders: of all shared consumers.
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
    holders: tuple[Holder, ...] = ()
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

    def holders_of(self, queue: str, consumer: str) -> tuple[Holder, ...]:
        """Return who has claimed events of a shared consumer."""
        return tuple(each for each in self.holders if each[:2] == (queue, consumer))

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


Names = tuple[str, ...]  # of a queue, or of a queue and its consumer

# The last event id of each tick that get_queue_info or get_consumer_info returned. A tick that was
# removed since then has no row.
TICKS = """
    select wanted.queue_name, wanted.tick_id, t.tick_event_seq
    from unnest(%s::text[], %s::bigint[]) as wanted (queue_name, tick_id)
        join pgq.queue q on q.queue_name = wanted.queue_name
        cross join lateral (
            select tick_event_seq from pgq.tick
            where tick_queue = q.queue_id and tick_id = wanted.tick_id limit 1) t
"""
ROTATIONS = "select queue_name, clock_timestamp() - queue_switch_time from pgq.queue"
# Daemons hold (ENGINE, WATCHING), the active one also (ENGINE, TICKING).
TICKERS: LiteralString = f"""
    select h.object, h.pid, h.role, h.application, h.address, h.start, h.may_tick
    from ({locks.OWNERS}) h
    where h.class = {locks.ENGINE} and h.object in ({locks.TICKING}, {locks.WATCHING})
    order by h.object, h.start, h.pid
"""  # noqa: S608  # our own query within our own
SKIPPED: LiteralString = f"""
    select q.queue_name from ({locks.BLOCKERS}) h join pgq.queue q on q.queue_id = h.object
    where h.class = {locks.QUEUE} and h.exclusive
"""  # noqa: S608  # our own query within our own
PROCESSES: LiteralString = f"""
    select queue_name, consumer_name, count(*) from ({locks.RUNNING}) r group by 1, 2
"""  # noqa: S608  # our own query within our own
EXTENSION = "select exists (select from pg_extension where extname = 'pgq')"

UNKNOWN = (  # this role may not see it, or the schema is older, or the extension pgq
    errors.InsufficientPrivilege,
    errors.UndefinedFunction,
    errors.UndefinedTable,
    SchemaMissing,
    WrongMode,  # a consumer of pgq_coop has no length
)


class Found(NamedTuple):
    """What the queries of one poll returned; None: this role may not see it."""

    queues: list[QueueInfo]
    consumers: list[ConsumerInfo]
    tick_seqs: dict[tuple[str, int], int]  # by queue and tick
    rotation_ages: dict[str, timedelta]
    counts: list[ConsumerCounts] | None
    delayed: list[DelayedCount] | None
    registrations: list[Registration] | None
    inflight: list[InflightInfo] | None
    holders: list[Holder] | None
    sessions: dict[Names, int]  # of each consumer that runs
    stalled: list[StalledInfo] | None
    tickers: list[dict[str, Any]]
    skipped: set[str]
    has_pgqd: bool  # the extension pgq, whose ticker holds no lock


def read(client: Client) -> Found:
    """Run the queries of one poll. Raises the errors of the client.

    Each runs in a transaction of its own. One transaction for all of them would hold locks on the
    event tables for the whole poll, and a rotation waits for such a lock for 50 ms only.
    """
    run = client.connection.execute
    queues, consumers = client.get_queue_info(), client.get_consumer_info()
    named = {(each.queue_name, each.last_tick_id) for each in queues}
    named |= {(each.queue_name, each.last_tick) for each in consumers}
    ticks = [each for each in named if each[1] is not None]
    seqs = run(TICKS, [[name for name, _ in ticks], [tick for _, tick in ticks]]).fetchall()
    with client.connection.cursor(row_factory=dict_row) as cursor:
        tickers = cursor.execute(TICKERS).fetchall()
    ((has_pgqd,),) = run(EXTENSION).fetchall()
    return Found(
        queues=queues,
        consumers=consumers,
        tick_seqs={(name, tick): seq for name, tick, seq in seqs},
        rotation_ages=dict(run(ROTATIONS).fetchall()),
        counts=if_seen(lambda: client.call(calls.admin.get_consumer_counts(COUNTED))),
        delayed=if_seen(lambda: client.call(calls.produce.get_delayed_counts(COUNTED))),
        registrations=if_seen(lambda: client.call(calls.admin.get_registrations())),
        inflight=if_seen(lambda: client.call(calls.sharing.get_inflight())),
        holders=if_seen(lambda: client.call(calls.sharing.get_holders())),
        sessions={row[:2]: row[2] for row in run(PROCESSES).fetchall()},
        stalled=if_seen(lambda: client.call(calls.admin.get_stalled_info())),
        tickers=tickers,
        skipped={name for (name,) in run(SKIPPED).fetchall()},
        has_pgqd=has_pgqd,
    )


def if_seen(call: Callable[[], T]) -> T | None:
    """Return the result of a call; None if this role or this schema does not have it."""
    try:
        return call()
    except UNKNOWN:
        return None


def event_seqs(found: Found) -> dict[Names, int]:
    """Return the last event id of each queue, and the one that each consumer has reached."""
    seqs: dict[Names, int] = {}
    for queue in found.queues:
        seq = found.tick_seqs.get((queue.queue_name, queue.last_tick_id or 0))
        if seq is not None and queue.ev_new is not None:
            seqs[queue.queue_name,] = seq + queue.ev_new
    for consumer in found.consumers:
        seq = found.tick_seqs.get((consumer.queue_name, consumer.last_tick or 0))
        if seq is not None:
            seqs[consumer.queue_name, consumer.consumer_name] = seq
    return seqs


def ticker_daemons(found: Found) -> tuple[TickerDaemon, ...]:
    """Return the daemons, the active one first: it holds both locks."""
    by_pid: dict[int | None, TickerDaemon] = {}
    for row in found.tickers:
        fields = {name: value for name, value in row.items() if name not in {"object", "start"}}
        daemon = TickerDaemon(active=row["object"] == 0, since=row["start"], **fields)
        by_pid.setdefault(daemon.pid, daemon)
    return tuple(by_pid.values())


def tick_state(info: QueueInfo, *, served: bool, skipped: bool) -> TickState:
    """Return whether a queue gets its ticks. `served`: a ticker runs; `skipped`: it is locked."""
    if info.queue_ticker_paused:
        return "paused"
    if info.queue_external_ticker:
        return "external"
    if not served:
        return "no ticker"
    if skipped:
        return "skipped"
    return "late" if is_late(info) else "ok"


def consumer_states(found: Found, rates: Mapping[Names, float]) -> tuple[ConsumerState, ...]:
    """Return the consumers, by queue and name."""
    counts = {each[:2]: each for each in found.counts or ()}
    detached = {each[:2]: each.detached for each in found.stalled or ()}
    modes = {each[:2]: each.mode for each in found.registrations or ()}
    flights = {each[:2]: each for each in found.inflight or ()}
    holders = Counter(each[:2] for each in found.holders or () if each.name)
    # Subconsumers have neither counts nor a mode.
    known = counts or modes
    states = []
    for info in found.consumers:
        names = info[:2]
        if known and names not in known:
            continue
        counted, flight = counts.get(names), flights.get(names)
        states.append(
            ConsumerState(
                queue=info.queue_name,
                name=info.consumer_name,
                mode=modes.get(names),
                lag=shown_lag(info.lag, info.pending_events),
                last_seen=info.last_seen,
                last_tick=info.last_tick,
                pending_events=info.pending_events,
                events_per_second=rates.get(names),
                retry_events=Count.up_to(counted.retry_events) if counted else None,
                dead_events=Count.up_to(counted.dead_events) if counted else None,
                processes=holders[names] if flight else found.sessions.get(names, 0),
                batch=info.current_batch,
                batch_end=info.next_tick,
                inflight=flight,
                detached=detached.get(names),
            )
        )
    return tuple(states)


def queue_states(
    found: Found,
    rates: Mapping[Names, float],
    consumers: Iterable[ConsumerState],
    tickers: Iterable[TickerDaemon],
    sizes: Mapping[str, int | None],
) -> tuple[QueueState, ...]:
    """Return the queues, by name."""
    served = found.has_pgqd or any(
        each.active and each.pid is not None and each.may_tick is not False for each in tickers
    )
    delayed = {each.queue_name: each for each in found.delayed or ()}
    of_queue: dict[str, list[ConsumerState]] = {}
    for each in consumers:
        of_queue.setdefault(each.queue, []).append(each)
    states = []
    for info in found.queues:
        name = info.queue_name
        mine = of_queue.get(name, [])
        worst = max((each for each in mine if not each.detached), key=_lag, default=None)
        waiting = delayed.get(name)
        rate = rates.get((name,), info.ev_per_sec)
        seen = found.counts is not None
        states.append(
            QueueState(
                name=name,
                state=tick_state(info, served=served, skipped=name in found.skipped),
                last_tick=info.last_tick_id,
                tick_age=info.ticker_lag,
                new_events=info.ev_new,
                events_per_second=rate,
                consumers=len(mine),
                worst_consumer=worst.name if worst else None,
                worst_lag=worst.lag if worst else None,
                pending_events=max((each.pending_events or 0 for each in mine), default=None),
                retry_events=total(each.retry_events for each in mine) if seen else None,
                dead_events=total(each.dead_events for each in mine) if seen else None,
                delayed_events=Count.up_to(waiting.delayed_events) if waiting else None,
                delayed_overdue=waiting.overdue if waiting else None,
                rotation_period=info.queue_rotation_period,
                rotation_age=found.rotation_ages.get(name),
                total_bytes=sizes.get(name),
            )
        )
    return tuple(states)


def _lag(consumer: ConsumerState) -> timedelta:
    return consumer.lag or timedelta(0)
