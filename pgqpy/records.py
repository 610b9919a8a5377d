"""Immutable records that calls return: events, batches, queues, consumers, ticks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Event(NamedTuple):
    """One row of a queue, as `get_batch_events` returns it.

    Attributes:
        id: position in the queue's sequence; keeps its value through the retry queue.
        time: start of the producer's transaction (an aware datetime; in UTC from
            `get_batch_events` and consumers).
        txid: the transaction that made it visible to consumers.
        retry: how often the event was retried; None at the first delivery.
        type: the kind of event, chosen by the application.
        data: the payload as text.
        extra1: free for the application, as are extra2, extra3 and extra4.
    """

    id: int
    time: datetime
    txid: int
    retry: int | None
    type: str | None
    data: str | None
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None

    def json(self) -> Any:  # any JSON value
        """Parse `data` as JSON; None if there is none. ValueError names the event."""
        if self.data is None:
            return None
        try:
            return json.loads(self.data)
        except ValueError as exc:
            msg = f"the data of event {self.id} (type {self.type!r}) is not JSON: {exc}"
            raise ValueError(msg) from exc


class Batch(NamedTuple):
    """The events between two ticks, for one consumer.

    `event_seq - prev_event_seq` is a rough estimate of the number of events. The difference may be
    0 for a batch with events, and more than 0 for an empty one.
    """

    id: int
    queue: str
    consumer: str
    tick_id: int
    prev_tick_id: int
    tick_time: datetime
    prev_tick_time: datetime
    event_seq: int
    prev_event_seq: int

    @property
    def parked(self) -> bool:
        """Whether it holds parked events: it lies between a tick and itself."""
        return self.tick_id == self.prev_tick_id


class Part(NamedTuple):
    """What a worker of a shared consumer took.

    Attributes:
        batch: the range; its consumer is the subconsumer's name.
        part_size: handle so many events at a time, because holders before died; None: as you like.
        tries: how often a holder died while it handled only the first open event; None: never.
        died: the tokens of the holders that `tries` counts.
        leases: how many leases of receivers had the events, and ended.
    """

    batch: Batch
    part_size: int | None
    tries: int | None
    died: tuple[str, ...] = ()
    leases: int = 0


class BatchInfo(NamedTuple):
    """An open batch, from `get_batch_info`; `lag` is the age of its last tick."""

    queue_name: str
    consumer_name: str
    batch_start: datetime
    batch_end: datetime
    prev_tick_id: int
    tick_id: int
    lag: timedelta
    seq_start: int
    seq_end: int


class RunState(NamedTuple):
    """How carefully a run is to handle events, from `begin_run`."""

    part_size: int | None  # events of a part; None: whole batches
    tries: int | None  # how often a run died while it handled only the first open event
    died: str | None  # the token of the run that died


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


class ConsumerInfo(NamedTuple):
    """The position of a consumer on a queue; `lag` is the age of its last finished tick.

    Fields are None if the tick is missing. Subconsumers have no position of their own.
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
    """The numbers of a consumer's retry, dead and parked events, each counted up to a limit.

    `parked_for` is how long the first parked event waits; None: there is none.
    """

    queue_name: str
    consumer_name: str
    retry_events: int
    dead_events: int
    parked_events: int = 0
    parked_keys: int = 0
    parked_for: timedelta | None = None


class Lanes(NamedTuple):
    """The lanes of a consumer: how many, and the field of the event that decides its lane."""

    lanes: int
    key: str


class WorkerInfo(NamedTuple):
    """Who works for a consumer, and on what, from `get_worker_info`.

    Attributes:
        mode: how the consumer runs: plain, shared or lanes; None until the first run.
        worker: the name of a worker of a shared consumer, or of a lane; None: the consumer
            itself.
        alive: False: another worker may take the batch over; None: the server cannot know.
        pid: the session that holds its lock; None without one.
        holder: the token of the run that has, or had last, the position.
        finished_to: the batch is finished up to this event id.
        messages: the leased events that are not finished; None: the batch is no lease.
        lease_left: until the lease ends, negative if it has; None: no lease.
        last_seen: since the last sign of life.
        last_move: since the batch was taken, or a part of it finished.
        attempt: 1, and one for each process that is known to have died with the batch, or for each
            lease that ended.
        part_size: the largest part in careful mode; None: whole batches.
        tries: how often a process died while it handled only the first open event.
        filter: which events the consumer takes, such as {"types": ["order.*"]}; None: all of them.
        lag: the age of the last finished tick; None: a worker without a batch.
    """

    queue_name: str
    consumer_name: str
    mode: str | None
    worker: str | None
    alive: bool | None
    pid: int | None
    holder: str | None
    current_batch: int | None
    last_tick: int | None
    next_tick: int | None
    finished_to: int | None
    messages: int | None
    lease_left: timedelta | None
    last_seen: timedelta
    last_move: timedelta
    attempt: int | None
    part_size: int | None
    tries: int | None
    filter: dict[str, list[str]] | None
    lag: timedelta | None


class Failure(NamedTuple):
    """Why an event is dead.

    Attributes:
        reason: the text of the exception, or what the consumer said.
        error: the class of the exception; None if there was none.
        traceback: the exception's traceback.
        tries: how often a handler had the event; None: once more than it was retried.
    """

    reason: str | None = None
    error: str | None = None
    traceback: str | None = None
    tries: int | None = None


class DeadEvent(NamedTuple):
    """An event that a consumer gave up. `dead_error`, `dead_traceback`: of an exception, if any."""

    dead_time: datetime
    dead_error: str | None
    dead_reason: str
    dead_traceback: str | None
    dead_tries: int
    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_retry: int | None
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


class DeadEventCount(NamedTuple):
    """How many dead events have one type and one class of exception."""

    ev_type: str | None
    dead_error: str | None
    dead_events: int
    last_dead_time: datetime


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
