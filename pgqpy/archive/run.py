"""A run of the archive: ranges of ticks become files, and the consumer follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy import tick_ranges
from pgqpy.archive.consumer import ArchiveConsumer, check_identity, check_position, register
from pgqpy.archive.files import file_path, unfinished_files
from pgqpy.archive.spool import write_range
from pgqpy.consumers.for_tools import RunningLock, Session, Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.archive.files import FileInfo, Identity
    from pgqpy.archive.store import Store

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
        return _Run(options, store, session, say).run()
    finally:
        session.close()


class _Run:
    def __init__(
        self, options: ArchiveOptions, store: Store, session: Session, say: Callable[[str], None]
    ) -> None:
        self.options = options
        self.store = store
        self.session = session
        self.say = say
        self.lock = RunningLock(options.queue, options.consumer)
        self.consumer = ArchiveConsumer(session.client, options.queue, options.consumer)

    def run(self) -> tuple[int, int]:
        """Archive until the tick that is the last one now."""
        own = self.consumer.identify()
        check_identity(self.store, own, adopt=self.options.adopt)
        self.consumer.commit_durably()
        register(self.store, self.consumer, own, new=self.options.new)
        self.lock.take(self.session, Wakeup())
        check_position(self.store, self.consumer, own, self.say)
        for path in unfinished_files(self.store, own.queue_id):
            self.store.remove(path)
        target = tick_ranges.find_queue(self.session.client, own.queue).last_tick
        files = events = 0
        while (written := self._next_file(own, target)) is not None:
            files, events = files + 1, events + written.events
        if self.options.adopt and not files:
            self.say(NOT_ADOPTED)
        return files, events

    def _next_file(self, own: Identity, target: int) -> FileInfo | None:
        """Write the next file and move the consumer to its end; None if there is nothing to write.

        A range that a dead run has pinned comes first, unless it is empty: then it may grow.
        """
        position = self.consumer.position()
        if position.pins:
            pinned = (position.tick, position.pins[0])
            if (written := self._write(own, *pinned, may_wait=True)) is not None:
                return written
        found = self.consumer.choose_range(target, self.options.max_events)
        # A range that ends before the target never grows. It may be empty all the same: events that
        # were rolled back count towards max_events by their ids.
        return found and self._write(own, *found, may_wait=found[1] >= target)

    def _write(
        self, own: Identity, from_tick: int, to_tick: int, *, may_wait: bool
    ) -> FileInfo | None:
        """Write the file of a pinned range; None if it is empty, short and may wait.

        With `adopt` none waits: only a file says that the archive is this server's from now on.
        """
        with self.store.spool(str(own.queue_id)) as spool:
            info = write_range(self.session.client, own, from_tick, to_tick, spool)
            is_short = info.end.time - info.start.time < LONGEST_EMPTY
            if may_wait and is_short and not info.events and not self.options.adopt:
                return None
            path = file_path(own.queue_id, info.start, info.end)
            self.store.put(spool, path, self._check)
        self._check()
        self.consumer.advance(from_tick, to_tick)
        self.say(f"{path}: {info.events:,} event(s)")
        return info

    def _check(self) -> None:
        """Raise an error if the session is lost, and with it the lock: another run may be at work.

        So a run that was stopped for a while writes nothing beside the run that followed it.
        """
        self.lock.check(self.session)
