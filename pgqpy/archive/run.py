"""A run of the archive: ranges of ticks become files, and its consumer follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from psycopg.rows import tuple_row

from pgqpy import calls, tick_ranges
from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch
from pgqpy.archive.files import (
    Identity,
    TickTime,
    check_file,
    file_path,
    find_breaks,
    find_identity,
    list_files,
    list_queue_ids,
    mark_of,
    read_info,
    unfinished_files,
    write_range,
)
from pgqpy.consumers.for_tools import RunningLock, Session, Wakeup
from pgqpy.errors import ConsumerNotFound, NotFound, QueueNotFound, RangeExpired
from pgqpy.tick_sizes import Limits, find_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import LiteralString

    from pgqpy.archive.files import ArchiveFile, FileInfo
    from pgqpy.archive.store import Store
    from pgqpy.tick_ranges import Position


# Ticks of a range, whose snapshots memory holds: at one a second, which compaction keeps, a range
# is at most 14 hours long.
MOST_TICKS = 50_000

OWN_NAME = "or give this one a name of its own (--consumer)"

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

ELSEWHERE = "archive to another location (--to), with --new"
MOST_NAMED = 3  # files in a message
BEGUN = "_begun"  # readers of Parquet skip names that begin so
MAX_EVENTS = 1_000_000  # of a file, unless one tick has more
# A range without events that is shorter than this is not written: a queue without events has a tick
# a minute, and would have a file for each run.
LONGEST_EMPTY = timedelta(hours=1)
NOT_ADOPTED = "there was no tick to archive, so the next run needs --adopt again"


@dataclass(frozen=True)
class ArchiveOptions:
    """What to archive.

    Attributes:
        queue: the queue.
        consumer: the name of the subscription.
        max_events: in a file, approximately; a file holds one tick at least.
        adopt: the server replaces the one that the archive was written from.
        new: begin an archive here, though the consumer has one elsewhere.
    """

    queue: str
    consumer: str = "archive"
    max_events: int = MAX_EVENTS
    adopt: bool = False
    new: bool = False


def run_archive(
    options: ArchiveOptions, store: Store, dsn: str, say: Callable[[str], None]
) -> tuple[int, int]:
    """Archive the events up to the last tick; return how many files and events.

    Kill it at any time: the next run goes on where this one was, and each event is archived once.

    Raises:
        ConsumerRunning: another run of this archive is active.
        ArchiveMismatch: the location holds another archive, or the history differs.
        ArchiveDamaged: what was stored is not what was written.
        QueueNotFound, ConsumerDetached, ConsumerRunning, InvalidEvent, ConnectionFailed.
    """
    session = Session.open(dsn, f"pgqpy archive {options.queue}")
    try:
        session.client.runner.require_pgqpy("pin_range")
        return ArchiveRun(options, store, session, say).run()
    finally:
        session.close()


class ArchiveRun:
    """One run: the location, the queue, and the consumer that reads ranges of its ticks."""

    def __init__(
        self, options: ArchiveOptions, store: Store, session: Session, say: Callable[[str], None]
    ) -> None:
        """Find the queue; QueueNotFound."""
        self.options = options
        self.names = (options.queue, options.consumer)
        self.store = store
        self.session = session
        self.client = session.client
        self.say = say
        self.lock = RunningLock(*self.names, OWN_NAME)
        self.own = self.identify()

    def run(self) -> tuple[int, int]:
        """Archive until the tick that is the last one now."""
        self.check_identity()
        self.client.connection.execute(DURABLE_COMMITS)
        self.register()
        self.lock.take(self.session, Wakeup())
        self.check_position()
        for path in unfinished_files(self.store, self.own.queue_id):
            self.store.remove(path)
        target = tick_ranges.find_queue(self.client, self.own.queue).last_tick
        files = events = 0
        while (written := self._next_file(target)) is not None:
            files, events = files + 1, events + written.events
        if self.options.adopt and not files:
            self.say(NOT_ADOPTED)
        return files, events

    def identify(self) -> Identity:
        """Return the queue's identity; QueueNotFound."""
        tick_ranges.find_queue(self.client, self.options.queue)
        with self.client.connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(IDENTITY, [self.options.queue]).fetchone()
            if row is None:  # dropped meanwhile
                raise QueueNotFound(queue=self.options.queue)
            queue, queue_id, created, queue_cluster, database, may_look = row
            # After a restore, the queue names the old cluster until it is repaired.
            cluster = cursor.execute(CLUSTER).fetchone() if may_look else None
        known = queue_cluster if cluster is None else cluster[0]
        return Identity(queue, queue_id, created, known, database, self.options.consumer)

    def check_identity(self) -> None:
        """Raise ArchiveMismatch if the location has another archive of this queue's name or id.

        With `adopt` the server may be another one, as after pg_upgrade or a restore.
        """
        own = self.own
        for queue_id in list_queue_ids(self.store):
            theirs = find_identity(self.store, list_files(self.store, queue_id))
            if theirs is None:
                continue
            if queue_id == own.queue_id:
                self._check_same(theirs)
            elif theirs.queue == own.queue:
                raise self._mismatch(
                    f"it holds a queue {own.queue!r} with the id {theirs.queue_id}, and here it "
                    f"has the id {own.queue_id}: it was dropped and created again, or this is "
                    "another database"
                )

    def _check_same(self, theirs: Identity) -> None:
        own = self.own
        if theirs.created != own.created:
            raise self._mismatch(
                f"it holds the queue {theirs.queue!r} that was created {theirs.created}, not the "
                f"one of {own.created}: this is another database, or the queue was created again"
            )
        if theirs.consumer != own.consumer:
            raise self._mismatch(
                f"consumer {theirs.consumer!r} writes it, not {own.consumer!r}",
                "name that one (--consumer)",
            )
        is_same = (theirs.cluster, theirs.database) == (own.cluster, own.database)
        if not is_same and not self.options.adopt:
            raise self._mismatch(
                "it was written from another server or database. If this one is a copy, "
                f"{ELSEWHERE}",
                "if it replaces the other, as after pg_upgrade or a restore, add --adopt once",
            )

    def register(self) -> None:
        """Register the consumer if it is missing, where the archive ends.

        An empty file marks the location before it has an archive file. If the consumer is
        registered, and neither the marker nor a file is there, the archive is elsewhere:
        ArchiveMismatch, unless `new` is set.
        """
        files = list_files(self.store, self.own.queue_id)
        marker = f"{self.own.queue_id}/{BEGUN}"
        position = tick_ranges.find_position(self.client, *self.names)
        if not files and not self.store.exists(marker):
            if position is not None:
                self._refuse_batches(position)
            if position is not None and not self.options.new:
                raise ArchiveMismatch(
                    f"the location holds nothing of queue {self.own.queue!r}, though consumer "
                    f"{self.own.consumer!r} has an archive: is the location right, and its disk "
                    "mounted? To begin another archive here, add --new",
                    queue=self.own.queue,
                )
            self.store.touch(marker)
        if position is None:
            self._register_at(files[-1].to_tick if files else None)

    def _register_at(self, end: int | None) -> None:
        """Register it at the tick where the archive ends, or at the first that can be read from.

        It is marked as a reader of ticks at once: see advance_subscription. ArchiveMismatch if the
        events after `end` are gone.
        """
        with tick_ranges.locked_queue(self.client, self.own.queue) as found:
            if not self.client.register_consumer(*self.names):
                return  # another run came first; moving it would undo what that one did
            tick = found.first_tick if end is None else end
            try:
                self.client.register_consumer_at(*self.names, tick)
            except (NotFound, RangeExpired) as error:
                raise ArchiveMismatch(
                    f"the archive ends at tick {tick}, which queue {self.own.queue!r} does not "
                    "keep any more: events after it may be gone. Archive to another location",
                    queue=self.own.queue,
                ) from error
            self.advance(tick, tick)

    def _refuse_batches(self, position: Position) -> None:
        """Raise ArchiveMismatch if it reads batches: the archive would take its events away."""
        if position.batch is not None or position.pins is None:
            raise ArchiveMismatch(
                f"consumer {self.own.consumer!r} of queue {self.own.queue!r} reads batches, so no "
                "archive can use it: choose another name (--consumer), or unregister this "
                "consumer first",
                queue=self.own.queue,
            )

    def position(self) -> Position:
        """Return its position; ConsumerNotFound if it was unregistered meanwhile."""
        found = tick_ranges.find_position(self.client, *self.names)
        if found is None:
            raise ConsumerNotFound(queue=self.own.queue, consumer=self.own.consumer)
        return found

    def advance(self, from_tick: int, to_tick: int) -> None:
        """Move it to the end of a range; ConsumerRunning if it is not at the range's start."""
        self.client.call(calls.ticks.advance_subscription(*self.names, from_tick, to_tick))

    def _find_tick(self, tick: int) -> TickTime | None:
        with self.client.connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(TICK, [self.own.queue_id, tick]).fetchone()
        return None if row is None else TickTime(*row)

    def check_position(self) -> None:
        """Compare the consumer's position with the files. The caller holds its running lock.

        A file that begins at the position was written by a run that died before it moved the
        consumer, or by one on a server that was lost. It counts if its last tick is still the
        queue's, because the events of two ticks never change: then the consumer is moved to its
        end.

        Raises ArchiveMismatch, ArchiveDamaged.
        """
        files = list_files(self.store, self.own.queue_id)
        for problem in find_breaks(files):
            raise self._mismatch(problem, "pgqpy archive list --verify names all")
        position = self.position()
        if position.batch is not None or not files:
            self._refuse_batches(position)
        before = [each for each in files if each.to_tick <= position.tick]
        beyond = files[len(before) :]
        if before:
            self._check_join(before[-1], position)
        if beyond and beyond[0].from_tick != position.tick:
            raise self._beyond(beyond, position)
        if position.pins is None:
            self.advance(position.tick, position.tick)  # marks it as a reader of ticks
        self._catch_up(beyond)

    def _catch_up(self, beyond: Sequence[ArchiveFile]) -> None:
        for number, each in enumerate(beyond):
            end = self._find_tick(each.to_tick)
            if end is None or mark_of(end) != each.mark:
                raise self._beyond(beyond[number:], self.position())
            try:
                check_file(self.store, each)
            except ArchiveDamaged as error:
                if each is not beyond[-1]:
                    raise
                # A store that renames by a copy was interrupted.
                self.say(f"{error}: it is written again")
                self.store.remove(each.path)
                return
            self.advance(each.from_tick, each.to_tick)
            self.say(f"{each.path} was complete already")

    def _check_join(self, newest: ArchiveFile, position: Position) -> None:
        if newest.to_tick != position.tick:
            raise self._mismatch(
                f"it ends at tick {newest.to_tick}, and consumer {self.own.consumer!r} is at tick "
                f"{position.tick}: the events in between are in no file",
                "unregister the consumer and run again, if the queue still has them; else "
                f"{ELSEWHERE}",
            )
        end = read_info(self.store, newest.path).end
        if self._find_tick(position.tick) != end:
            raise self._mismatch(
                f"its last tick, {end.tick} of {end.time}, has another time in this database: the "
                "server lost its last transactions, as in a failover or a restore, and used tick "
                "numbers again"
            )

    def _beyond(self, files: Sequence[ArchiveFile], position: Position) -> ArchiveMismatch:
        more = " …" if len(files) > MOST_NAMED else ""
        names = ", ".join(each.path for each in files[:MOST_NAMED]) + more
        return self._mismatch(
            f"consumer {self.own.consumer!r} is at tick {position.tick}, and {len(files)} file(s) "
            f"hold later events of a history that this server does not have: {names}. It lost its "
            "last transactions, as in a failover or a restore from a backup",
            "move these files elsewhere and run again: what the server has is archived anew",
        )

    def _mismatch(self, what: str, remedy: str = ELSEWHERE) -> ArchiveMismatch:
        queue = self.own.queue
        text = f"the archive does not fit queue {queue!r}: {what}: {remedy}"
        return ArchiveMismatch(text, queue=queue)

    def _next_file(self, target: int) -> FileInfo | None:
        """Write the next file and move the consumer to its end; None if there is nothing to write.

        A range that a dead run has pinned comes first, unless it is empty: then it may grow.
        """
        position = self.position()
        if position.pins:
            pinned = (position.tick, position.pins[0])
            if (written := self._write(*pinned, may_wait=True)) is not None:
                return written
        found = self._choose_range(target)
        # A range that ends before the target never grows. It may be empty all the same: events that
        # were rolled back count towards max_events by their ids.
        return found and self._write(*found, may_wait=found[1] >= target)

    def _choose_range(self, target: int) -> tuple[int, int] | None:
        """Return the next range up to a tick, pinned; None if there is none."""
        start = self.position().tick
        if start >= target:
            return None
        limits = Limits(self.options.max_events, MOST_TICKS)
        with tick_ranges.locked_queue(self.client, self.own.queue) as queue:
            end = find_end(self.client, queue, start, target, limits)
            if end is None:
                return None
            self.client.call(calls.ticks.pin_range(*self.names, start, end))
        return start, end

    def _write(self, from_tick: int, to_tick: int, *, may_wait: bool) -> FileInfo | None:
        """Write the file of a pinned range; None if it is empty, short and may wait.

        With `adopt` none waits: only a file says that the archive is this server's from now on.
        """
        with self.store.spool(str(self.own.queue_id)) as spool:
            info = write_range(self.client, self.own, from_tick, to_tick, spool)
            is_short = info.end.time - info.start.time < LONGEST_EMPTY
            if may_wait and is_short and not info.events and not self.options.adopt:
                return None
            path = file_path(self.own.queue_id, info.start, info.end)
            self.store.put(spool, path, self._check)
        self._check()
        self.advance(from_tick, to_tick)
        self.say(f"{path}: {info.events:,} event(s)")
        return info

    def _check(self) -> None:
        """Raise an error if the session is lost, and with it the lock: another run may be at work.

        So a run that was stopped for a while writes nothing beside the run that followed it.
        """
        self.lock.check(self.session)
