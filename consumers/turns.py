"""Which queue of a consumer over several queues has the turn. No I/O, except to wake up sources."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Ends = tuple[socket.socket, socket.socket]


@dataclass
class _Place:
    """What is known of one queue."""

    ends: Ends  # read what wakes it up, write to do so
    starting: bool = True  # neither asked for its first turn nor left
    waiting: bool = False
    passed_over: float = 0.0  # seconds that earlier queues had the turn while it waited
    exposed: bool = False  # its token may be beside an open batch
    hides: bool = False  # its token is to be removed: handlers of another queue are to run


class Turns:
    """Gives one of several queues the turn: handlers of the others do not run meanwhile.

    The earliest queue that waits gets it. A later one gets it after earlier ones have had it for
    `interval` seconds. Only such time counts: if waiting for the end of a long part of a later
    queue counted too, parts that are longer than the interval would starve the earliest queue.

    The lock is never held while something is awaited: so the same class serves threads and tasks.
    """

    def __init__(
        self,
        number: int,
        interval: float,
        on_turn: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the number of queues, the first of which is 0, and what to call with each turn."""
        self._on_turn = on_turn
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._since = 0.0  # of the holder
        self._places = [_Place(_pair()) for _ in range(number)]

    def fileno(self, queue: int) -> int:
        """Return the file that is readable when this queue is to look again."""
        return self._places[queue].ends[0].fileno()

    def ask(self, queue: int) -> None:
        """Note that this queue wants the turn."""
        with self._lock:
            place = self._places[queue]
            began = place.starting
            place.waiting, place.starting = True, False
        if began:
            self._wake()  # later queues that wait for the begin of this one

    def take(self, queue: int) -> bool:
        """Take the turn, if it is free and this queue is the next one to have it."""
        place = self._places[queue]
        with suppress(BlockingIOError):
            while place.ends[0].recv(4096):
                pass
        with self._lock:
            if self._holder is not None or self._next() != queue:
                return False
            self._holder, self._since = queue, self._clock()
            place.waiting, place.passed_over = False, 0.0
            place.exposed, place.hides = True, False
        self._on_turn(queue)
        return True

    def contended(self, queue: int) -> bool:
        """Whether another queue is to have the turn that this one has, now that it could end."""
        with self._lock:
            others = any(place.waiting for place in self._places)
            if self._holder != queue or not others:
                return False
            place = self._places[queue]
            self._count_time()
            place.waiting = True
            found = self._next()
            place.waiting = False
            return found != queue

    def leave(self, queue: int, *, exposed: bool = False) -> None:
        """Note that this queue neither has the turn nor wants it; doing so twice is safe."""
        with self._lock:
            place = self._places[queue]
            if self._holder == queue:
                self._count_time()
                self._holder = None
            place.waiting = place.starting = False
            place.passed_over, place.exposed = 0.0, exposed
        self._wake()

    def alone(self, queue: int) -> bool:
        """Whether no other queue has its token beside an open batch; if one has, ask it to hide."""
        with self._lock:
            others = [place for place in self._places if place is not self._places[queue]]
            exposed = [place for place in others if place.exposed]
            for place in exposed:
                place.hides = True
        if exposed:
            self._wake()
        return not exposed

    def is_to_hide(self, queue: int) -> bool:
        """Whether this queue, which waits, is to remove its token."""
        with self._lock:
            return self._places[queue].exposed and self._places[queue].hides

    def hidden(self, queue: int) -> None:
        """Note that this queue has removed its token."""
        with self._lock:
            self._places[queue].exposed = False
        self._wake()

    def begun(self, queue: int) -> bool:
        """Whether every earlier queue has asked for its first turn or left."""
        with self._lock:
            return not any(place.starting for place in self._places[:queue])

    def close(self) -> None:
        """Close the sockets."""
        for place in self._places:
            for end in place.ends:
                end.close()

    def _count_time(self) -> None:
        now = self._clock()
        for place in self._places[(self._holder or 0) + 1 :]:
            if place.waiting:
                place.passed_over += now - self._since
        self._since = now

    def _next(self) -> int | None:
        waiting = [number for number, place in enumerate(self._places) if place.waiting]
        late = [n for n in waiting if self._places[n].passed_over >= self._interval]
        if late:
            return max(late, key=lambda number: self._places[number].passed_over)
        first = min(waiting, default=None)
        if first is None or any(place.starting for place in self._places[:first]):
            return None
        return first

    def _wake(self) -> None:
        for place in self._places:
            with suppress(BlockingIOError):  # full: it will look
                place.ends[1].send(b"x")


def _pair() -> Ends:
    reader, writer = socket.socketpair()
    reader.setblocking(False)  # noqa: FBT003  # the standard library's signature
    writer.setblocking(False)  # noqa: FBT003  # the standard library's signature
    return reader, writer
