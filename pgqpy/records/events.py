"""Records of events and batches."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Self


class Event(NamedTuple):
    """One row of a queue, as `get_batch_events` returns it.

    Attributes:
        id: position in the queue's sequence; keeps its value through the retry queue.
        time: start of the producer's transaction (an aware datetime; in UTC from
            `get_batch_events` and consumers).
        txid: the transaction that made it visible to consumers.
        retry: how often the event was retried, None at the first delivery; from a shared consumer
            how often it was claimed before, also by processes that died.
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

    @classmethod
    def make(
        cls,
        type: str | None,
        data: object = None,
        extra1: object = None,
        extra2: object = None,
        extra3: object = None,
        extra4: object = None,
        *,
        id: int = 1,
        time: datetime | None = None,
        txid: int = 1,
        retry: int | None = None,
    ) -> Self:
        """Return an event as consumers get it, for tests of handlers without a database.

        Data and extras are written as by `insert_event`; InvalidEvent says what cannot be. `time`
        is now if it is left out.
        """
        from pgqpy.calls import payload  # noqa: PLC0415  # for tests only

        fields = payload.texts((type, data, extra1, extra2, extra3, extra4))
        return cls(id, time or datetime.now(timezone.utc), txid, retry, *fields)

    def json(self) -> Any:  # any JSON value
        """Parse `data` as JSON; None if there is none. ValueError names the event."""
        if self.data is None:
            return None
        try:
            return json.loads(self.data)
        except ValueError as exc:
            msg = f"the data of event {self.id} (type {self.type!r}) is not JSON: {exc}"
            raise ValueError(msg) from exc


class InsertedOnce(NamedTuple):
    """The result of `insert_event_once`.

    Attributes:
        id: of the event, the new one or the one that was inserted under the key before.
        is_new: whether this call inserted it.
    """

    id: int
    is_new: bool


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


class ListInfo(NamedTuple):
    """What a list of a shared consumer is part of. It has no ticks: it comes when it is claimed.

    Attributes:
        id: the token of the claim.
        queue: the queue.
        consumer: the consumer.
        tick_id: None, in place of a batch's.
        prev_tick_id: None.
    """

    id: int
    queue: str
    consumer: str
    tick_id: None = None
    prev_tick_id: None = None


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


class Attempt(NamedTuple):
    """A batch that a process has opened to handle it, from `open_batch`."""

    batch: Batch
    attempts: int | None  # at what is first in it, this one too; None: nobody counts
    position: int | None  # pos_no, for finish_part


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


class DeadEventBounds(NamedTuple):
    """The ids of a consumer's newest dead events, from `get_dead_event_bounds`.

    Attributes:
        first_id: the lowest id; None: there are none.
        last_id: the highest id.
        dead_events: how many they are.
        has_more: there are dead events with ids below `first_id`.
    """

    first_id: int | None
    last_id: int | None
    dead_events: int
    has_more: bool


class DeadEventCount(NamedTuple):
    """How many dead events have one type and one class of exception."""

    ev_type: str | None
    dead_error: str | None
    dead_events: int
    last_dead_time: datetime


class Cancellation(NamedTuple):
    """What `cancel_event` or `skip_event` did with one event, for one consumer.

    Attributes:
        id: the event's id.
        consumer: its name; None: the queue has no consumer.
        state: cancelled: the consumer does not get the event; delivered: it has had the event, or
            has it in its open batch; by ticks: it reads ranges of ticks, which have the event;
            unknown: the queue has no such event for it.
    """

    id: int
    consumer: str | None
    state: Literal["cancelled", "delivered", "by ticks", "unknown"]
