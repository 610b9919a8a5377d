"""A transactional consumer as a process: `python effects.py DSN [GATE]`.

It writes each event into the table `effect`. With a gate (an advisory lock's key) it waits there
when the events of a batch are processed, before the batch is finished.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pgqpy.consumers import TransactionalConsumer

if TYPE_CHECKING:
    import psycopg

    from pgqpy import Event


class Effects(TransactionalConsumer):
    """Writes each event into a table."""

    queue = "q"
    name = "c"
    gate: int | None = None

    def process_event(self, event: Event, connection: psycopg.Connection[Any]) -> None:
        """Have the effect, and wait at the gate after the event that asks for it."""
        connection.execute("insert into effect values (%s, %s)", [event.id, event.data])
        if self.gate is not None and event.data == "gate":
            connection.execute("select pg_advisory_xact_lock_shared(%s)", [self.gate])


if __name__ == "__main__":
    consumer = Effects(sys.argv[1])
    consumer.gate = int(sys.argv[2]) if len(sys.argv) > 2 else None
    consumer.run()
