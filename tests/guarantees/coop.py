"""Subconsumers of the consumer `c` on the queue `q`, as PGQ's own clients have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

NEXT = "select pgq_coop.next_batch('q', 'c', %s, %s::interval)"
SLOWEST = "select pgq.slowest_tick(queue_id) from pgq.queue where queue_name = 'q'"


class Subconsumer:
    """One subconsumer and its session."""

    def __init__(self, session: Session, name: str) -> None:
        """Register it."""
        self.session, self.name = session, name
        session.one("select pgq_coop.register_subconsumer('q', 'c', %s)", name)

    def take(self, dead: str | None = None) -> int | None:
        """Open a batch, perhaps one of a subconsumer that was silent for so long."""
        batch: int | None = self.session.one(NEXT, self.name, dead)
        return batch

    def data(self, batch: int | None) -> list[str]:
        """Read a batch."""
        return self.session.data(batch)

    def finish(self, batch: int | None) -> int:
        """Finish a batch."""
        return self.session.finish(batch)

    def drain(self) -> list[str]:
        """Take and finish all there is."""
        found = []
        while (batch := self.take()) is not None:
            found += self.data(batch)
            assert self.finish(batch) == 1
        return found


def subconsumers(db: Database, ranges: str, count: int = 2) -> list[Subconsumer]:
    """Make the queue with one event in each range, and subconsumers with sessions of their own."""
    db.queue()
    made = [Subconsumer(db.open(), str(number)) for number in range(1, count + 1)]
    db.main.tick_after(*ranges)
    return made
