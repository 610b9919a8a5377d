"""Workers of the shared consumer `c` on the queue `q`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

TAKE = "select batch_id from pgq.take_part('q', 'c', %s, %s, %s::interval, %s::interval)"
LOCK = """
    select pg_advisory_lock(7366514, sub_id) from pgq.registration
    join pgq.consumer on co_id = sub_consumer where co_name = 'c.' || %s
"""
AWAY = "update pgq.position set pos_active = now() - interval '1 hour' where pos_batch = %s"
ENDED = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch = %s"
STEPPED_BACK = """
    update pgq.position
       set pos_active = pos_active + interval '1 hour', pos_until = pos_until + interval '1 hour'
     where pos_batch = %s"""  # the clock, by an hour
SLOWEST = "select pgq.slowest_tick(queue_id) from pgq.queue where queue_name = 'q'"


class Worker:
    """One worker: its session, its subconsumer, its token."""

    def __init__(self, session: Session, name: str, holder: str | None) -> None:
        """Register the subconsumer."""
        self.session, self.name, self.holder = session, name, holder
        session.one("select pgq.register_subconsumer('q', 'c', %s)", name)

    def lock(self) -> Worker:
        """Prove by the session's lock that the worker lives."""
        self.session.one(LOCK, self.name)
        return self

    def take(self, lease: str | None = None, dead: str | None = None) -> int | None:
        """Take a range: its batch."""
        batch: int | None = self.session.one(TAKE, self.name, self.holder, lease, dead)
        return batch

    def take_later(self) -> Future[Any]:
        """Take a range, which will have to wait."""
        return self.session.later(TAKE, self.name, self.holder, None, None)

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


def workers(db: Database, ranges: str, count: int = 2, *, tokens: bool = True) -> list[Worker]:
    """Make the queue with one event in each range, and workers with sessions of their own."""
    db.queue()
    made = [
        Worker(db.open(), str(number), f"host:{number}:x" if tokens else None)
        for number in range(1, count + 1)
    ]
    db.main.tick_after(*ranges)
    return made
