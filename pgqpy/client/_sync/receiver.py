"""[Generated from _async/receiver.py by tools/unasync.py: edit that file, not this one.] The loop over the events of a shared consumer that ends and claims them in one round trip."""

from __future__ import annotations

import math
import time
from collections import deque
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import psycopg

from pgqpy import calls
from pgqpy.errors import LeaseLost

if TYPE_CHECKING:
    from typing_extensions import Self

    from pgqpy.calls import After, Interval
    from pgqpy.calls.inflight import Claimed, Key
    from pgqpy.client._sync.messages import Receiving
    from pgqpy.records import Event, Failure


class Receiver:
    """Claims events, one list after the other: `client.receiver` makes it.

    The loop waits for events, and never ends by itself. Each event needs `done`, `retry` or `dead`:
    one that has none of them when the block is left comes again at once, and that claim counts as
    an attempt. Each thread or task has a receiver of its own; they may share a client.

    Attributes:
        attempt: how often the present event was claimed: 1 the first time.
    """

    def __init__(
        self,
        client: Receiving,
        queue: str,
        consumer: str,
        key: Key | None,
        limit: int,
        lease: Interval,
    ) -> None:
        """Check the arguments."""
        self.attempt = 0
        self._client = client
        self._names = (queue, consumer)
        self._key = key
        self._limits = (limit, lease)
        self._receive = calls.inflight.receive(queue, consumer, limit, lease)
        self._pause = calls.required_interval("lease", lease).total_seconds() / 3
        self._claimed_at = 0.0
        self._waiting: deque[tuple[int, int, Event]] = deque()  # claimed, and not begun
        self._begun: dict[int, int] = {}  # the token of each event
        self._done: list[tuple[int, int]] = []  # tokens and ids, for the next round trip

    def __enter__(self) -> Self:
        """Register the consumer if it is new."""
        self._client._begin_receiving(*self._names, self._key)  # noqa: SLF001  # a part of it
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """End what is done, and return all other events. Raises LeaseLost as the loop."""
        try:
            self._send_done()
        finally:
            try:
                self._return_events()
            except psycopg.Error:  # the lease returns them
                if kind is None:
                    raise

    def _return_events(self) -> None:
        """Return the events that were begun as attempts, and release those that wait."""
        begun = itemgetter(1)
        wanted = [
            calls.inflight.retry(
                *self._names, token, [each for each, _ in events], 0, keep_key=True
            )
            for token, events in groupby(sorted(self._begun.items(), key=begun), begun)
        ]
        if self._waiting:
            token, ids = self._waiting[0][0], [event.id for _, _, event in self._waiting]
            wanted.append(calls.inflight.release(*self._names, token, ids))
        self._begun.clear()
        self._waiting.clear()
        if wanted:
            self._client.runner.run_all(*wanted)

    def __iter__(self) -> Self:
        """Loop over events."""
        return self

    def __next__(self) -> Event:
        """Return the next event, when there is one.

        Raises LeaseLost if others may have events that were done here, or that wait here: loop
        again for more.
        """
        if not self._waiting:
            wait = self._client._claim_when_there  # noqa: SLF001  # as above
            self._waiting.extend(wait(self._names[0], self._done_receive, math.inf))
            self._claimed_at = time.monotonic()
        elif time.monotonic() > self._claimed_at + self._pause:
            self._extend()
        token, self.attempt, event = self._waiting.popleft()
        self._begun[event.id] = token
        return event

    def done(self, event: Event) -> None:
        """Note that an event is handled: the next claim, retry or the block's end ends it."""
        self._done.append((self._end(event), event.id))

    def retry(self, event: Event, after: After, *, keep_key: bool = True) -> None:
        """Return an event, to be claimed again later: as `message.retry`."""
        names = (*self._names, self._end(event), [event.id])
        call = calls.inflight.retry(*names, after, keep_key=keep_key)
        self._send_done()  # of the same key
        self._check_lease(self._client.runner.run(call), event.id)
        if keep_key and (key := self._key_of(event)) is not None:  # the server has them again
            others = [each for each in self._waiting if self._key_of(each[2]) != key]
            self._waiting = deque(others)

    def extend(self, event: Event, seconds: Interval) -> None:
        """Let the lease of an event, and of those claimed with it, end so long from now."""
        call = calls.inflight.extend(*self._names, self._begun.get(event.id, 0), seconds)
        self._check_lease(self._client.runner.run(call), event.id)

    def dead(self, event: Event, reason: str | BaseException | Failure) -> None:
        """Give an event up: as `message.dead`."""
        call = calls.inflight.dead(*self._names, self._end(event), [event.id], reason)
        self._check_lease(self._client.runner.run(call), event.id)

    def _key_of(self, event: Event) -> str | None:
        return None if self._key is None else getattr(event, self._key)

    def _end(self, event: Event) -> int:
        """Return the token of an event that is handled, once."""
        token = self._begun.pop(event.id, 0)
        self._check_lease(token, event.id)
        return token

    def _check_lease(self, is_held: int, *ids: int) -> None:
        if not is_held:
            queue, consumer = self._names
            raise LeaseLost(queue=queue, consumer=consumer, event_ids=list(ids))

    def _done_receive(self) -> Claimed | None:
        """End what is done and claim the next list; None: not in the transaction of others."""
        tokens = {token for token, _ in self._done}
        if len(tokens) != 1:
            self._send_done()
            return self._client._claim(self._receive)  # noqa: SLF001  # as above
        ids = [event_id for _, event_id in self._done]
        call = calls.inflight.done_receive(*self._names, tokens.pop(), ids, *self._limits)
        try:
            found = self._client._claim(call)  # noqa: SLF001  # as above
        except LeaseLost:
            self._done.clear()
            raise
        if found is not None:
            self._done.clear()
        return found

    def _send_done(self) -> None:
        if self._done:
            call = calls.inflight.done(*self._names, self._done)
            lost = self._client.runner.run(call)
            self._done.clear()
            self._check_lease(not lost, *lost)

    def _extend(self) -> None:
        """Extend the lease of what waits here; the time that it took so far may be long."""
        call = calls.inflight.extend(*self._names, self._waiting[0][0], self._limits[1])
        ids = [event.id for _, _, event in self._waiting]
        if not self._client.runner.run(call):
            self._waiting.clear()
            self._check_lease(0, *ids)
        self._claimed_at = time.monotonic()
