"""The fetched events of a batch that are not finished yet, and which of them may start. No I/O."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pgqpy.records import Event


class KeyedEvent(NamedTuple):
    """An event and its key. None is no key: the event waits for no other."""

    event: Event
    key: Hashable


class EventWindow:
    """Fetched events that are not finished. Of one key, one event at a time may run, in order."""

    def __init__(self) -> None:
        self._ready: deque[KeyedEvent] = deque()
        self._followers: dict[Hashable, deque[KeyedEvent]] = {}  # of each key that is ready or runs
        self._unfinished = 0

    def __len__(self) -> int:
        """Return how many events are not finished."""
        return self._unfinished

    @property
    def keys(self) -> list[Hashable]:
        """The keys of these events."""
        return list(self._followers)

    def add(self, event: Event, key: Hashable) -> None:
        """Take an event. TypeError if the key cannot be hashed."""
        item = KeyedEvent(event, key)
        if key is not None and key in self._followers:
            self._followers[key].append(item)
        else:
            if key is not None:
                self._followers[key] = deque()
            self._ready.append(item)
        self._unfinished += 1

    def take(self) -> KeyedEvent | None:
        """Return an event to start now; None if all others wait for one that runs."""
        return self._ready.popleft() if self._ready else None

    def finish(self, item: KeyedEvent) -> None:
        """Forget an event that ran, and let the next one of its key start."""
        self._unfinished -= 1
        if item.key is None:
            return
        followers = self._followers[item.key]
        if followers:
            self._ready.append(followers.popleft())
        else:
            del self._followers[item.key]
