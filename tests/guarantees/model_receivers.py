"""What receivers of a shared consumer should see: each event in one place, until it is finished."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.guarantees.model import Copy


@dataclass
class Receivers:
    """The events of a consumer whose messages are leased; which ones come first is left open."""

    seen: int  # so many copies of those committed are behind a tick that the consumer began at
    open: dict[int, Copy] = field(default_factory=dict)  # not finished, by id
    leases: dict[int, set[int]] = field(default_factory=dict)  # what is not finished of each
    ended: set[int] = field(default_factory=set)  # leases that anybody may take over
    lost: list[int] = field(default_factory=list)  # leases that were taken over
    attempts: dict[int, int] = field(default_factory=dict)  # of events, when they come again
    uncertain: set[int] = field(default_factory=set)  # events that a worker had
    retries: dict[int, Copy] = field(default_factory=dict)

    def see(self, committed: list[Copy], name: str) -> None:
        """Take what a tick made visible."""
        new = committed[self.seen :]
        self.seen = len(committed)
        self.open |= {copy.id: copy for copy in new if copy.owner in (None, name)}

    def free(self) -> set[int]:
        """Return the events that nobody has a lease of."""
        held = (ids for batch, ids in self.leases.items() if batch not in self.ended)
        return set(self.open).difference(*held)

    def receive(self, batch: int, ids: Iterable[int]) -> None:
        """Lease events. If they were leased before, that lease is lost as a whole."""
        ids = set(ids)
        for other in [each for each in self.ended if self.leases[each] & ids]:
            for event_id in self.leases.pop(other):
                self.attempts[event_id] = self.attempts.get(event_id, 1) + 1
            self.ended.remove(other)
            self.lost.append(other)
        self.leases[batch] = ids

    def take_over(self, ids: Iterable[int]) -> None:
        """Give events to a worker. It counts too, so their attempts are not known any more."""
        ids = set(ids)
        self.uncertain |= ids
        for other in [each for each in self.ended if self.leases[each] & ids]:
            assert self.leases.pop(other) == ids
            self.ended.remove(other)
            self.lost.append(other)

    def finish_taken(self, ids: Iterable[int]) -> None:
        """Finish events that a worker or a receiver has."""
        for event_id in ids:
            del self.open[event_id]
            self.attempts.pop(event_id, None)
            self.uncertain.discard(event_id)

    def finish(self, batch: int, ids: Iterable[int]) -> None:
        """Finish events of a lease."""
        self.finish_taken(ids)
        self.leases[batch] -= set(ids)
        if not self.leases[batch]:
            del self.leases[batch]
            self.ended.discard(batch)
            self.lost.append(batch)

    def retry(self, batch: int, event_id: int, name: str, retried: int) -> None:
        """Set an event aside, and finish it."""
        copy = self.open[event_id]
        self.retries[event_id] = type(copy)(copy.id, copy.data, owner=name)
        self.finish(batch, [event_id])
        self.attempts[event_id] = 1 + retried
