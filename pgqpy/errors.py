"""The exceptions of pgqpy.

A docstring's first sentence is the default message; the data that it names are attributes.

Errors of PostgreSQL that do not concern queues, such as a lost connection, a lock timeout or a
missing right, reach the caller as psycopg's exceptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from datetime import datetime


UPGRADE = "pip install --upgrade pgqpy"


class PgqError(Exception):
    """The queue refused a call. `.sqlstate` tells the reason where a class has several."""

    what_to_do: ClassVar[str] = ""
    words: ClassVar[str] = ""  # the message with the data, if that says more than the docstring

    queue: str | None = None
    consumer: str | None = None
    batch_id: int | None = None
    event_id: int | None = None
    tick_id: int | None = None
    parameter: str | None = None
    function: str | None = None
    field: str | None = None
    index: int | None = None
    sqlstate: str | None = None
    detail: str | None = None

    def __init__(self, message: str | None = None, **data: object) -> None:
        """Take the message (default: `words` or the docstring) and the data, as attributes."""
        if not message:
            first_line = (type(self).__doc__ or "").partition("\n")[0]
            message = first_line.partition(". ")[0].rstrip(".")
            if self.words and data:
                message = self.words.format(**data)
            message += f": {self.what_to_do}" if self.what_to_do else ""
        super().__init__(message)
        self.__dict__.update(data)


class NotFound(PgqError):
    """There is no such event, tick or cron entry. Data: what identifies it, as `.event_id`.

    `.sqlstate`: PQ004 the batch has no such event, PQ005 the queue has no such tick, PQ023 no cron
    entry has this name.
    """

    name: str | None = None  # of the cron entry


class QueueNotFound(NotFound):
    """No queue has this name. Data: `.queue`.

    `.sqlstate` is PQ026 if the queue was renamed; the message has the new name.
    """

    what_to_do = "create it with create_queue"
    words: ClassVar[str] = "no queue {queue!r} in this database"


class ConsumerNotFound(NotFound):
    """The consumer is not registered on the queue. Data: `.queue`, `.consumer`."""

    what_to_do = "register it with register_consumer"
    words: ClassVar[str] = "consumer {consumer!r} is not registered on queue {queue!r}"


class BatchLost(PgqError):
    """No such batch is open, or another session holds it: nothing was finished.

    Data: `.batch_id`.
    """

    what_to_do = "undo the work on its events, if it had any: its holder receives them again"


class LeaseLost(PgqError):
    """The lease of events has ended, or they were done before.

    Data: `.queue`, `.consumer`, `.event_ids`.
    """

    what_to_do = "undo the work on them, if it had any: other receivers may have them"
    words: ClassVar[str] = "events {event_ids} are not, or no longer, claimed by this receiver"
    event_ids: list[int] | None = None


class QueueRefused(PgqError):
    """The queue takes no events or no ticks now. Data: `.queue`.

    `.sqlstate`: PQ006 inserting is switched off, PQ007 one transaction inserted more events than
    the queue allows, PQ011 its ticker is paused or external.
    """


class QueueInUse(PgqError):
    """The queue still has consumers or cron entries. Data: `.queue`."""

    what_to_do = "remove them, or drop it with force"


class InvalidArgument(PgqError):
    """An argument has a value that is not allowed. Data: `.parameter`."""


class InvalidEvent(PgqError):
    """The event cannot be stored, or cannot be read because it is too large to be sent.

    PostgreSQL sends at most 1 GB as one row. Data: `.field`, in `insert_events` also `.index` (from
    0); of an event that cannot be read: `.batch_id` or `.queue`.
    """


class UnreadableEvent(PgqError):
    """The data of an event does not fit the class of its type. Data: `.event_id`."""


class DatabaseRestored(PgqError):
    """Transaction ids ran backwards, as after a restore into another cluster. Data: `.queue`.

    `.sqlstate`: PQ012, or PQ015 if the tick at a consumer's position does not exist (`.consumer`).
    """

    what_to_do = "run repair_queue"


class WrongTransaction(PgqError):
    """The call is not possible in this transaction.

    `.sqlstate`: PQ013 it needs READ COMMITTED, 2D000 a handler ended the transaction of its batch.
    """


class RangeExpired(PgqError):
    """Rotation has removed events of the range.

    Data: `.queue`, `.tick_id`, and the range of ticks that are left: `.first_tick`, `.last_tick`.
    """

    first_tick: int | None = None
    last_tick: int | None = None


class ConsumerRunning(PgqError):
    """Another program uses the consumer.

    `.sqlstate` is PQ017 if the subscription is not at the expected tick; its present tick is
    `.tick_id`. Else another session runs it. Data: `.queue`, `.consumer`, and the session that
    holds its lock, or waits for it: `.pid`, `.role`, `.application`, `.address` and `.since`, the
    start of that session.
    """

    pid: int | None = None
    role: str | None = None
    application: str | None = None
    address: str | None = None
    since: datetime | None = None


class WrongMode(PgqError):
    """The consumer is shared (receive), or it is plain (next_batch).

    Data: `.queue`, `.consumer`.
    """

    what_to_do = "run it in its mode, or change that with set_consumer_mode while nobody runs it"


class ConsumerDetached(PgqError):
    """The consumer was too far behind, and is detached. Data: `.queue`, `.consumer`."""

    what_to_do = "attach it again: pgqpy consumer set QUEUE CONSUMER attached=yes"


class StageLost(PgqError):
    """Some of the stages do not exist any more, so none was committed.

    They were dropped, or waited for more than a day, or the queue was repaired meanwhile. Or the
    server that took over in a failover does not have them. Or a task of a repeated epoch opened no
    stage, because the ledger had the epoch, and lost it since then.

    `.sqlstate` is PQ019 if the epoch was committed with other events, or a later one was; nothing
    was inserted. Data: `.queue`.
    """

    what_to_do = "write the epoch again"


class SchemaMissing(PgqError):
    """schema pgq is not installed in this database.

    Or it is older than pgqpy, or the extension's, and lacks the function. Data: `.function`.
    """

    what_to_do = "run pgqpy schema install"


class SchemaRefused(PgqError):
    """The schema pgq cannot be installed or used here.

    It is newer than this pgqpy (Data: `.installed`, `.shipped`, version numbers), or another role
    put code into it that this session must not run (Data: `.object`, the schema or an object in it,
    and its `.owner`).
    """

    installed: int | None = None
    shipped: int | None = None
    what: str | None = None  # of an owner that is not trusted: the message without what to do
    object: str | None = None
    owner: str | None = None

    @classmethod
    def too_new(cls, installed: int | None, shipped: int) -> SchemaRefused:
        """Return the error for a schema that is newer than this package."""
        message = f"the schema pgq here is version {installed}, this pgqpy's {shipped}"
        data = {"installed": installed, "shipped": shipped, "what_to_do": UPGRADE}
        return cls(f"{message}: {UPGRADE}", **data)


class ConnectionFailed(PgqError):
    """The connection to the database failed, or cannot carry what pgqpy sends."""


class MissingExtra(PgqError):
    """An optional package is missing."""
