"""A consumer that notes when events arrive, in each contestant's own way of waiting for them."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.load.arrivals import Arrivals
from pgqpy.consumers import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pgqpy

CONSUMER = "bench"
READ = "select msg_id, message from pgmq.read_with_poll(%s, 30, 1000)"  # its default interval
DELETE = "select pgmq.delete(%s, %s::bigint[])"


class Noting(Consumer):
    """pgqpy's, with its default settings."""

    name = CONSUMER
    arrivals: Arrivals

    def process_event(self, event: pgqpy.Event) -> None:
        """Note it."""
        self.arrivals.arrived(event.data or "")


def pgqpy_consumer(dsn: str, queue: str, arrivals: Arrivals) -> None:
    """Run the consumer as an application would."""
    Noting.arrivals = arrivals
    Noting(dsn, queue=queue).run()


def pgmq_loop(dsn: str, queue: str, arrivals: Arrivals) -> None:
    """Read with pgmq's own waiting mode, and delete what was read."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            found = connection.execute(READ, (queue,)).fetchall()
            for _, text in found:
                arrivals.arrived(text)
            connection.execute(DELETE, (queue, [number for number, _ in found]))


def pgqueuer_manager(dsn: str, queue: str, arrivals: Arrivals) -> None:
    """Run pgqueuer's queue manager: it waits by LISTEN."""
    from pgqueuer import PgQueuer  # noqa: PLC0415  # where it is installed

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            manager = PgQueuer.from_psycopg_connection(connection)

            async def note(job: Any) -> None:
                now = time.monotonic_ns()
                arrivals.arrived(job.payload.decode(), now)

            manager.entrypoint(queue)(note)
            await manager.run()

    asyncio.run(run())


ARRIVE: dict[str, Callable[[str, str, Arrivals], None]] = {
    "pgqpy": pgqpy_consumer,
    "pgmq": pgmq_loop,
    "pgqueuer": pgqueuer_manager,
}


def main(peer: str, dsn: str, queue: str) -> None:
    """Run as a process of its own until it is terminated."""
    ARRIVE[peer](dsn, queue, Arrivals())


if __name__ == "__main__":
    main(*sys.argv[1:])
