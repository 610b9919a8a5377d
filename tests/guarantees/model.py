"""What a queue should do, in a few lines: the model that the state machine compares with.

Transactions are numbered as they begin. A tick is the set of transactions that had committed when
it was taken; a batch is what the tick at its end has and the one at its start has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    done: set[int] = field(default_factory=set)  # and those with these ids
    retries: dict[int, Copy] = field(default_factory=dict)
    holder: str | None = None  # the token of the run at work, or of one that died
    part: int | None = None  # events of a part, after crashes
    tries: int | None = None  # crashes while only the first open event was handled

    def begin_run(self, holder: str) -> tuple[int | None, int | None, str | None]:
        """Begin a run; narrow the parts if the run before it died with a batch open."""
        died = None if self.holder == holder else self.holder
        if died and self.open is not None:
            if self.part == 1:
                self.tries = (self.tries or 0) + 1
            narrower = {None: 1000, 1000: 30, 30: 1, 1: 1}
            self.part = narrower[self.part]
        elif died:
            died = None
        self.holder = holder
        return self.part, self.tries, died

    def widen_run(self, holder: str) -> int | None:
        """Make the parts larger, if this is the run at work."""
        if holder == self.holder and self.part is not None:
            wider = {1: 30, 30: 1000, 1000: None}
            self.part, self.tries = wider[self.part], None
        return self.part

    def end_run(self, holder: str) -> int:
        """End a run in order, if it is the one at work."""
        if holder != self.holder:
            return 0
        self.holder = None
        return 1


@dataclass
class Model:
    """A queue: what is committed, where it was cut, and where its consumers are."""

    committed: list[Copy] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)  # how much was committed at each
    thinned: set[int] = field(default_factory=set)  # which of them are gone
    consumers: dict[str, Consumer] = field(default_factory=dict)
    shared: Consumer | None = None  # `s`: its position is the end of what was handed out
    workers: dict[str, Consumer] = field(default_factory=dict)  # `s.1` …: ranges that are open

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

    def share(self, names: Iterable[str]) -> None:
        """Register a shared consumer, with workers."""
        self.shared = Consumer(last=len(self.ticks) - 1)
        self.workers = {name: Consumer(last=0) for name in names}

    def take_part(self, name: str, *, dead: bool) -> bool:
        """Give a worker a range, if there is one: its own, a dead one's, the next one."""
        assert self.shared is not None
        if self.workers[name].open is not None:
            return True
        others = (other for other, each in sorted(self.workers.items()) if each.open is not None)
        other = next(others, None) if dead else None
        if other is not None:
            self.workers[name], self.workers[other] = self.workers[other], Consumer(last=0)
            return True
        following = self._tick_after(self.shared.last)
        if following is not None:
            self.workers[name] = Consumer(last=self.shared.last, open=following)
            self.shared.last = following
        return following is not None

    def slowest(self) -> int:
        """Return the tick that every consumer has passed."""
        shared = [] if self.shared is None else [self.shared]
        open_ranges = [each for each in self.workers.values() if each.open is not None]
        return min(each.last for each in (*self.consumers.values(), *shared, *open_ranges))

    def _find(self, name: str) -> Consumer:
        return self.workers[name] if name in self.workers else self.consumers[name]

    def _owner(self, name: str) -> Consumer:
        if name not in self.workers:
            return self.consumers[name]
        assert self.shared is not None
        return self.shared

    def thin(self, kept: set[int]) -> None:
        """Forget all ticks but these, among which are the last one and those in use."""
        used = {tick for each in self.consumers.values() for tick in (each.last, each.open)}
        for each in self.workers.values():
            used |= set() if each.open is None else {each.last, each.open}
        used |= set() if self.shared is None else {self.shared.last}
        assert kept >= (used - {None}) | {len(self.ticks) - 1}
        self.thinned = set(range(len(self.ticks))) - kept

    def batch(self, name: str) -> list[Copy]:
        """Return the events of the open batch, by id."""
        consumer = self._find(name)
        assert consumer.open is not None
        between = self.committed[self.ticks[consumer.last] : self.ticks[consumer.open]]
        left = (c for c in between if c.id > consumer.finished and c.id not in consumer.done)
        return sorted(
            (c for c in left if c.owner in (None, name.partition(".")[0])), key=lambda c: c.id
        )

    def finish_part(self, name: str, up_to: int, done: list[int]) -> None:
        """Finish the beginning of the open batch, and some events behind it."""
        consumer = self._find(name)
        consumer.finished = up_to
        consumer.done.update(done)
        consumer.tries = None

    def retry(self, name: str, copy: Copy) -> bool:
        """Set an event of the open batch aside; say whether it was not yet."""
        retries = self._owner(name).retries
        new = copy.id not in retries
        owner = name.partition(".")[0]
        retries.setdefault(copy.id, Copy(copy.id, copy.data, owner=owner))
        return new

    def maint_retry(self) -> int:
        """Put all that was set aside back, in one transaction; return how many."""
        owners = [*self.consumers.values(), *([self.shared] if self.shared else [])]
        back = [copy for consumer in owners for copy in consumer.retries.values()]
        for consumer in owners:
            consumer.retries.clear()
        self.committed += back
        return len(back)

    def finish(self, name: str) -> None:
        """Close the open batch."""
        consumer = self._find(name)
        assert consumer.open is not None
        consumer.last, consumer.open = consumer.open, None
        consumer.finished = 0
        consumer.done.clear()
        consumer.tries = None
