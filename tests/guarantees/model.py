"""What a queue should do, in a few lines: the model that the state machine compares with.

Transactions are numbered as they begin. A tick is the set of transactions that had committed when
it was taken; a batch is what the tick at its end has and the one at its start has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Copy:
    """An event as one transaction inserted it: for every consumer, or for one (a retry)."""

    id: int
    data: str
    owner: str | None = None


@dataclass
class Transaction:
    """What an open transaction has inserted; `marks` are how much there was at each savepoint."""

    copies: list[Copy] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)

    def rollback_to(self, mark: int) -> None:
        """Forget what came after a savepoint, and later savepoints."""
        del self.copies[self.marks[mark] :]
        del self.marks[mark + 1 :]


@dataclass
class Consumer:
    """A position, the batch that is open, and what waits in the retry queue."""

    last: int
    open: int | None = None
    finished: int = 0  # events of the open batch with an id up to this
    retries: dict[int, Copy] = field(default_factory=dict)
    attempts: int | None = None  # processes that began to handle it; None: nobody counts


@dataclass
class Model:
    """A queue: what is committed, where it was cut, and where its consumers are."""

    committed: list[Copy] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)  # how much was committed at each
    thinned: set[int] = field(default_factory=set)  # which of them are gone
    consumers: dict[str, Consumer] = field(default_factory=dict)

    def tick(self) -> None:
        """Cut here."""
        self.ticks.append(len(self.committed))

    def register(self, name: str) -> None:
        """Begin at the last tick; a consumer that is there stays where it is."""
        self.consumers.setdefault(name, Consumer(last=len(self.ticks) - 1))

    def next(self, name: str) -> bool:
        """Open the next batch, or keep the open one; say whether there is one."""
        consumer = self.consumers[name]
        if consumer.open is None:
            consumer.open = self._tick_after(consumer.last)
        return consumer.open is not None

    def _tick_after(self, last: int) -> int | None:
        later = range(last + 1, len(self.ticks))
        return next((tick for tick in later if tick not in self.thinned), None)

    def thin(self, kept: set[int]) -> None:
        """Forget all ticks but these, among which are the last one and those in use."""
        used = {tick for each in self.consumers.values() for tick in (each.last, each.open)}
        assert kept >= (used - {None}) | {len(self.ticks) - 1}
        self.thinned = set(range(len(self.ticks))) - kept

    def batch(self, name: str) -> list[Copy]:
        """Return the events of the open batch, by id."""
        consumer = self.consumers[name]
        assert consumer.open is not None
        between = self.committed[self.ticks[consumer.last] : self.ticks[consumer.open]]
        left = (c for c in between if c.id > consumer.finished)
        return sorted((c for c in left if c.owner in (None, name)), key=lambda c: c.id)

    def finish_part(self, name: str, up_to: int) -> None:
        """Finish the beginning of the open batch."""
        self.consumers[name].finished = up_to

    def retry(self, name: str, copy: Copy) -> bool:
        """Set an event of the open batch aside; say whether it was not yet."""
        retries = self.consumers[name].retries
        new = copy.id not in retries
        retries.setdefault(copy.id, Copy(copy.id, copy.data, owner=name))
        return new

    def maint_retry(self) -> int:
        """Put all that was set aside back, in one transaction; return how many."""
        back = [copy for each in self.consumers.values() for copy in each.retries.values()]
        for consumer in self.consumers.values():
            consumer.retries.clear()
        self.committed += back
        return len(back)

    def finish(self, name: str) -> None:
        """Close the open batch."""
        consumer = self.consumers[name]
        assert consumer.open is not None
        consumer.last, consumer.open = consumer.open, None
        consumer.finished = 0
        consumer.attempts = None
