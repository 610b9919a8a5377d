"""The comparison of an archive with its queue and consumer, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch
from pgqpy.archive.file_format import mark_of
from pgqpy.archive.folder import (
    find_breaks,
    find_identity,
    list_files,
    list_queue_ids,
    read_info,
)
from pgqpy.archive.verify import check_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgqpy.archive.consumer import ArchiveConsumer
    from pgqpy.archive.file_format import ArchiveFile, Identity
    from pgqpy.archive.store import Store
    from pgqpy.tick_ranges import Position

ELSEWHERE = "archive to another location (--to), with --new"
MOST_NAMED = 3  # files in a message
BEGUN = "_begun"  # readers of Parquet skip names that begin so


def check_identity(store: Store, own: Identity, *, adopt: bool) -> None:
    """Raise ArchiveMismatch if the location has another archive of this queue's name or id.

    With `adopt` the server may be another one, as after pg_upgrade or a restore.
    """
    for queue_id in list_queue_ids(store):
        theirs = find_identity(store, list_files(store, queue_id))
        if theirs is None:
            continue
        if queue_id == own.queue_id:
            _check_same(own, theirs, adopt=adopt)
        elif theirs.queue == own.queue:
            raise _mismatch(
                own,
                f"it holds a queue {own.queue!r} with the id {theirs.queue_id}, and here it has "
                f"the id {own.queue_id}: it was dropped and created again, or this is another "
                "database",
            )


def _check_same(own: Identity, theirs: Identity, *, adopt: bool) -> None:
    if theirs.created != own.created:
        raise _mismatch(
            own,
            f"it holds the queue {theirs.queue!r} that was created {theirs.created}, not the one "
            f"of {own.created}: this is another database, or the queue was created again",
        )
    if theirs.consumer != own.consumer:
        raise _mismatch(
            own,
            f"consumer {theirs.consumer!r} writes it, not {own.consumer!r}",
            "name that one (--consumer)",
        )
    if (theirs.cluster, theirs.database) != (own.cluster, own.database) and not adopt:
        raise _mismatch(
            own,
            f"it was written from another server or database. If this one is a copy, {ELSEWHERE}",
            "if it replaces the other, as after pg_upgrade or a restore, add --adopt once",
        )


def register(store: Store, consumer: ArchiveConsumer, own: Identity, *, new: bool) -> None:
    """Register the consumer if it is missing, where the archive ends.

    An empty file marks the location before it has an archive file. If the consumer is registered,
    and neither the marker nor a file is there, the archive is elsewhere: ArchiveMismatch, unless
    `new` is set.
    """
    files, marker = list_files(store, own.queue_id), f"{own.queue_id}/{BEGUN}"
    position = consumer.find_position()
    if not files and not store.exists(marker):
        if position is not None:
            consumer.refuse_batches(position)
        if position is not None and not new:
            raise ArchiveMismatch(
                f"the location holds nothing of queue {own.queue!r}, though consumer "
                f"{own.consumer!r} has an archive: is the location right, and its disk mounted? To "
                "begin another archive here, add --new",
                queue=own.queue,
            )
        store.touch(marker)
    if position is None:
        consumer.register(files[-1].to_tick if files else None)


def check_position(
    store: Store, consumer: ArchiveConsumer, own: Identity, say: Callable[[str], None]
) -> None:
    """Compare the consumer's position with the files. The caller holds its running lock.

    A file that begins at the position was written by a run that died before it moved the consumer,
    or by one on a server that was lost. It counts if its last tick is still the queue's, because
    the events of two ticks never change: then the consumer is moved to its end.

    Raises ArchiveMismatch, ArchiveDamaged.
    """
    files = list_files(store, own.queue_id)
    for problem in find_breaks(files):
        raise _mismatch(own, problem, "pgqpy archive verify lists all problems")
    position = consumer.position()
    if position.batch is not None or not files:
        consumer.refuse_batches(position)
    before = [each for each in files if each.to_tick <= position.tick]
    beyond = files[len(before) :]
    if before:
        _check_join(store, consumer, own, before[-1], position)
    if beyond and beyond[0].from_tick != position.tick:
        raise _beyond(own, beyond, position)
    if position.pins is None:
        consumer.mark_as_reader(position.tick)
    _catch_up(store, consumer, own, beyond, say)


def _catch_up(
    store: Store,
    consumer: ArchiveConsumer,
    own: Identity,
    beyond: Sequence[ArchiveFile],
    say: Callable[[str], None],
) -> None:
    for number, each in enumerate(beyond):
        end = consumer.find_tick(own.queue_id, each.to_tick)
        if end is None or mark_of(end) != each.mark:
            raise _beyond(own, beyond[number:], consumer.position())
        try:
            check_file(store, each)
        except ArchiveDamaged as error:
            if each is not beyond[-1]:
                raise
            say(f"{error}: it is written again")  # a store that renames by a copy was interrupted
            store.remove(each.path)
            return
        consumer.advance(each.from_tick, each.to_tick)
        say(f"{each.path} was complete already")


def _check_join(
    store: Store,
    consumer: ArchiveConsumer,
    own: Identity,
    newest: ArchiveFile,
    position: Position,
) -> None:
    if newest.to_tick != position.tick:
        raise _mismatch(
            own,
            f"it ends at tick {newest.to_tick}, and consumer {own.consumer!r} is at tick "
            f"{position.tick}: the events in between are in no file",
            f"unregister the consumer and run again, if the queue still has them; else {ELSEWHERE}",
        )
    end = read_info(store, newest.path).end
    if consumer.find_tick(own.queue_id, position.tick) != end:
        raise _mismatch(
            own,
            f"its last tick, {end.tick} of {end.time}, has another time in this database: the "
            "server lost its last transactions, as in a failover or a restore, and used tick "
            "numbers again",
        )


def _beyond(own: Identity, files: Sequence[ArchiveFile], position: Position) -> ArchiveMismatch:
    names = ", ".join(each.path for each in files[:MOST_NAMED]) + (
        " …" if len(files) > MOST_NAMED else ""
    )
    return _mismatch(
        own,
        f"consumer {own.consumer!r} is at tick {position.tick}, and {len(files)} file(s) hold "
        f"later events of a history that this server does not have: {names}. It lost its last "
        "transactions, as in a failover or a restore from a backup",
        "move these files elsewhere and run again: what the server has is archived anew",
    )


def _mismatch(own: Identity, what: str, remedy: str = ELSEWHERE) -> ArchiveMismatch:
    return ArchiveMismatch(
        f"the archive does not fit queue {own.queue!r}: {what}: {remedy}", queue=own.queue
    )
