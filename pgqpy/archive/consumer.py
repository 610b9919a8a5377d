"""The consumer of an archive: its registration, its position, its next range."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from psycopg.rows import tuple_row

from pgqpy import tick_ranges
from pgqpy.archive.errors import ArchiveMismatch
from pgqpy.archive.file_format import Identity, TickTime
from pgqpy.errors import ConsumerNotFound, NotFound, QueueNotFound, RangeExpired

if TYPE_CHECKING:
    from typing_extensions import LiteralString

    from pgqpy.client import Client
    from pgqpy.tick_ranges import Position

# Ticks of a range, whose snapshots memory holds: at one a second, which compaction keeps, a range
# is at most 14 hours long.
MOST_TICKS = 50_000
PIN_TRIES = 5  # compaction may remove a tick between the query and the pin

IDENTITY: LiteralString = """
    select q.queue_name, q.queue_id, q.queue_created, q.queue_system_id, d.oid::bigint,
           has_function_privilege('pg_catalog.pg_control_system()', 'execute')
      from pgq.queue q
      join pg_database d on d.datname = current_database()
     where q.queue_name = %s"""
CLUSTER: LiteralString = "select system_identifier from pg_control_system()"
TICK: LiteralString = """
    select tick_id, tick_time from pgq.tick where tick_queue = %s and tick_id = %s limit 1"""

DURABLE_COMMITS: LiteralString = """
    select set_config('synchronous_commit', 'on', false)
     where current_setting('synchronous_commit') = 'off'"""


class ArchiveConsumer(NamedTuple):
    """A consumer that reads ranges of ticks, over one client."""

    client: Client
    queue: str
    name: str

    def identify(self) -> Identity:
        """Return the queue's identity; QueueNotFound."""
        tick_ranges.find_queue(self.client, self.queue)
        with self.client.connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(IDENTITY, [self.queue]).fetchone()
            if row is None:  # dropped meanwhile
                raise QueueNotFound(queue=self.queue)
            queue, queue_id, created, queue_cluster, database, may_look = row
            # After a restore, the queue names the old cluster until it is repaired.
            cluster = cursor.execute(CLUSTER).fetchone() if may_look else None
        known = queue_cluster if cluster is None else cluster[0]
        return Identity(queue, queue_id, created, known, database, self.name)

    def find_tick(self, queue_id: int, tick: int) -> TickTime | None:
        """Return a tick and its time; None if it is not there."""
        with self.client.connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(TICK, [queue_id, tick]).fetchone()
        return None if row is None else TickTime(*row)

    def find_position(self) -> Position | None:
        """Return its position; None if it is not registered."""
        return tick_ranges.find_position(self.client, self.queue, self.name)

    def position(self) -> Position:
        """Return its position; ConsumerNotFound if it was unregistered meanwhile."""
        found = self.find_position()
        if found is None:
            raise ConsumerNotFound(queue=self.queue, consumer=self.name)
        return found

    def register(self, end: int | None) -> None:
        """Register it at the tick where the archive ends, or at the first that can be read from.

        It is marked as a reader of ticks at once: see advance_subscription. ArchiveMismatch if the
        events after `end` are gone.
        """
        with tick_ranges.locked_queue(self.client, self.queue) as found:
            if not self.client.register_consumer(self.queue, self.name):
                return  # another run came first; moving it would undo what that one did
            tick = found.first_tick if end is None else end
            try:
                self.client.register_consumer_at(self.queue, self.name, tick)
            except (NotFound, RangeExpired) as error:
                raise ArchiveMismatch(
                    f"the archive ends at tick {tick}, which queue {self.queue!r} does not keep "
                    "any more: events after it may be gone. Archive to another location",
                    queue=self.queue,
                ) from error
            self.mark_as_reader(tick)

    def refuse_batches(self, position: Position) -> None:
        """Raise ArchiveMismatch if it reads batches: the archive would take its events away."""
        if position.batch is not None or position.pins is None:
            raise ArchiveMismatch(
                f"consumer {self.name!r} of queue {self.queue!r} reads batches, so no "
                "archive can use it: choose another name (--consumer), or unregister this "
                "consumer first",
                queue=self.queue,
            )

    def mark_as_reader(self, tick: int) -> None:
        """Let the server know that it reads ranges of ticks."""
        self.client.advance_subscription(self.queue, self.name, tick, tick)

    def commit_durably(self) -> None:
        """Wait for the disk at each commit of this session, even if the role does not."""
        self.client.connection.execute(DURABLE_COMMITS)

    def advance(self, from_tick: int, to_tick: int) -> None:
        """Move it to the end of a range; ConsumerRunning if it is not at the range's start."""
        self.client.advance_subscription(self.queue, self.name, from_tick, to_tick)

    def choose_range(self, target: int, max_events: int) -> tuple[int, int] | None:
        """Return the next range up to a tick, pinned; None if there is none."""
        for _ in range(PIN_TRIES - 1):
            with suppress(NotFound):
                return self._pin_next_range(target, max_events)
        return self._pin_next_range(target, max_events)

    def _pin_next_range(self, target: int, max_events: int) -> tuple[int, int] | None:
        found = self.find_range(target, max_events)
        if found is not None:
            self.client.pin_range(self.queue, self.name, *found)
        return found

    def find_range(self, target: int, max_events: int) -> tuple[int, int] | None:
        """Return the next range up to a tick: whole ticks, one at least."""
        start = self.position().tick
        if start >= target:
            return None
        queue = tick_ranges.find_queue(self.client, self.queue)
        limits = tick_ranges.Limits(max_events, MOST_TICKS)
        end = tick_ranges.find_end(self.client, queue, start, target, limits)
        return None if end is None else (start, end)
