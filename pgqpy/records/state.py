"""Records about queues, consumers, and what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID


class QueueInfo(NamedTuple):
    """The settings and state of one queue; `ev_per_sec` is over its last 20 ticks."""

    queue_name: str
    queue_ntables: int
    queue_cur_table: int
    queue_rotation_period: timedelta
    queue_switch_time: datetime
    queue_external_ticker: bool
    queue_ticker_paused: bool
    queue_ticker_max_count: int
    queue_ticker_max_lag: timedelta
    queue_ticker_idle_period: timedelta
    ticker_lag: timedelta | None
    ev_per_sec: float | None
    ev_new: int | None
    last_tick_id: int | None


class QueueMetrics(NamedTuple):
    """What a queue keeps, from `get_queue_metrics`.

    Attributes:
        queue_created: when the queue was created.
        oldest_event_age: of the first event that consumers may be moved back to; None: there is
            none. Ages are those of the ticks that count the events.
        newest_event_age: of the last event.
        estimated_events: how many ids were used up since the oldest one.
        total_bytes: the event tables on disk, with their indexes; None: one is locked.
    """

    queue_name: str
    queue_created: datetime
    oldest_event_age: timedelta | None
    newest_event_age: timedelta | None
    estimated_events: int | None
    total_bytes: int | None


class ConsumerInfo(NamedTuple):
    """The position of a consumer on a queue; `lag` is the age of its last finished tick.

    Fields are None if the tick is missing.
    """

    queue_name: str
    consumer_name: str
    lag: timedelta | None
    last_seen: timedelta
    last_tick: int | None
    current_batch: int | None
    next_tick: int | None
    pending_events: int | None


class ConsumerCounts(NamedTuple):
    """The numbers of a consumer's retry and dead events, each counted up to a limit."""

    queue_name: str
    consumer_name: str
    retry_events: int
    dead_events: int


class Registration(NamedTuple):
    """How a consumer runs: plain, by one process, or shared; and what it takes.

    `filter` is such as {"types": ["order.*"]}; None: all events.
    """

    queue_name: str
    consumer_name: str
    mode: Literal["plain", "shared"]
    filter: dict[str, list[str]] | None


class SeekResult(NamedTuple):
    """Where `seek_consumer` moved a consumer: a tick, its time.

    `dropped` counts the events that waited for a retry and were deleted.
    """

    tick_id: int
    tick_time: datetime
    dropped: int


class Tick(NamedTuple):
    """A tick: its id and its snapshot (txid_snapshot as text)."""

    tick_id: int
    tick_snapshot: str


class TickInfo(NamedTuple):
    """A tick after which every event of the queue is still stored, from `get_tick_info`.

    `tick_snapshot` is a txid_snapshot as text. `events` estimates the number of events since the
    previous tick in the list; it is None for the first.
    """

    tick_id: int
    tick_time: datetime
    tick_snapshot: str
    tick_event_seq: int
    events: int | None


class TickMark(NamedTuple):
    """A tick of a queue's picture, from `get_tick_marks`; `event_seq`: the last id it counts."""

    id: int
    time: datetime
    event_seq: int


class TickStage(NamedTuple):
    """A stage whose events are in a range of ticks, from `get_tick_stages`.

    `stage` is the id that `open_stage` returned, `stage_txid` the stage's transaction.
    `stage_released_by` is the txid of the transaction that released the stage. Its events have this
    txid too; `events` estimates their number.
    """

    stage: int
    stage_txid: int
    stage_released_by: int
    events: int


class MaintOperation(NamedTuple):
    """One operation of `maint_operations`: a function to call, or `vacuum` and a table."""

    func_name: str
    func_arg: str | None


class CronEntry(NamedTuple):
    """A cron entry, without the data and extras of its event.

    Attributes:
        type: of the event.
        missed: what is done about missed times: one, all or skip.
        paused_since: None: it is not paused.
        next_due: None: the ticker has yet to plan it, as the first time after `planned_at`.
        last_due: the time of its last event; None: there was none.
        version: changes with the entry.
        read_at: the server's time.
    """

    name: str
    queue: str
    type: str | None
    schedule: str
    timezone: str
    missed: str
    paused_since: datetime | None
    next_due: datetime | None
    last_due: datetime | None
    planned_at: datetime
    version: UUID
    read_at: datetime


class StalledInfo(NamedTuple):
    """A consumer that a rotation waits for, or that is detached.

    Attributes:
        policy: warn or detach.
        stall_after: the policy's limit of time; None: none.
        stall_bytes: the policy's limit of bytes; None: none.
        detached: since when; None: it is attached.
        held_since: the time of the first tick that it has not finished; None if it is detached.
        held_for: the age of that tick, by the server's clock.
        held_bytes: the size of the queue's event tables, which grow until it goes on.
        exceeded: it keeps more than the policy allows, or there is no limit, or it is detached.
        is_live: it could go on where it is.
    """

    queue: str
    consumer: str
    policy: str
    stall_after: timedelta | None
    stall_bytes: int | None
    detached: datetime | None
    held_since: datetime | None
    held_for: timedelta | None
    held_bytes: int | None
    exceeded: bool
    is_live: bool | None


class RotationTable(NamedTuple):
    """One of a queue's rotating event tables, from `get_rotation_info`.

    Attributes:
        number: from 0 on.
        name: with the schema.
        state: current: inserts go there; next: the next rotation truncates it; older.
        bytes: on disk, with indexes; None, as both times: a session holds its lock.
        first_time: of the first tick that may see its first event; None: it has none.
        last_time: of the first tick that may see its last event.
        due: when the rotation is due by the clock. This and the next two are of state next only.
        held_by: what keeps it, now or as soon as it is due: consumer, retention, stage,
            transaction (a session's lock on it), ticker (it has to tick first); None: nothing.
        holder: the consumer's name, the stage's writer, the session's pid (None: it is prepared).
    """

    number: int
    name: str
    state: str
    bytes: int | None
    first_time: datetime | None
    last_time: datetime | None
    due: datetime | None
    held_by: str | None
    holder: str | None


class DelayedEvent(NamedTuple):
    """An event that waits: when it is due, and when and by which transaction it was inserted."""

    ev_deliver_at: datetime
    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


class RetryCount(NamedTuple):
    """How many events of a consumer wait in the retry queue until a time, from `get_retry_counts`.

    `due_within` is 0 for events that are due, and None for those that are due in more than a day.
    """

    due_within: timedelta | None
    retry_events: int


class DelayedCount(NamedTuple):
    """How many delayed events a queue has, and for how long the first one has been due.

    `overdue` is None if nothing is due. It is a fraction of a second while a ticker runs.
    """

    queue_name: str
    delayed_events: int
    overdue: timedelta | None


class DelayedMoves(NamedTuple):
    """The result of `move_delayed_events`: events moved, and how long until the next are due.

    `next_delayed` is 0 if more events are due than the call could move.
    """

    moved: int
    next_delayed: timedelta | None
    next_retry: timedelta | None


class HistoryPoint(NamedTuple):
    """A queue, or one of its consumers, at one moment of the history, from `get_history`.

    Attributes:
        events_per_second: inserted since the point before; None in the first.
        lag: the age of the last finished tick, 0 while no event is pending; of a queue, that of
            its slowest consumer. This and the rest are None where there was no consumer.
        pending_events: after the position; of a queue, the most of a consumer.
        retry_events: in the retry queue, counted up to 10,000 for each consumer.
        dead_events: counted as these.
    """

    time: datetime
    events_per_second: float | None
    lag: timedelta | None
    pending_events: int | None
    retry_events: int | None
    dead_events: int | None


class NotedChange(NamedTuple):
    """A change that a program noted by `begin_change`, from `get_changes`.

    Attributes:
        login: the login of the database.
        user: the user of the program.
        action: what was done.
        arguments: with which arguments; a dict of JSON values.
        end_time: when it ended; None, as `outcome`: it has not ended, or the program died.
        outcome: how it ended.
    """

    id: int
    time: datetime
    login: str
    user: str | None
    action: str
    queue: str | None
    consumer: str | None
    arguments: dict[str, Any] | None
    end_time: datetime | None
    outcome: str | None
