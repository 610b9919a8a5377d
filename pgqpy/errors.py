"""The exceptions of pgqpy.

A docstring's first sentence is the default message; the data that it names are attributes.

Errors of PostgreSQL that do not concern queues, such as a lost connection, a lock timeout or a
missing right, reach the caller as psycopg's exceptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from datetime import datetime


class PgqError(Exception):
    """The queue refused a call."""

    what_to_do: ClassVar[str] = ""

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
        """Take the message (default: the docstring) and the data, which become attributes."""
        if not message:
            first_line = (type(self).__doc__ or "").partition("\n")[0]
            message = first_line.partition(". ")[0].rstrip(".")
            message += f": {self.what_to_do}" if self.what_to_do else ""
        super().__init__(message)
        self.__dict__.update(data)


class QueueNotFound(PgqError):
    """No queue has this name. Data: `.queue`."""

    what_to_do = "create it with create_queue"
    words: ClassVar[str] = "no queue {queue!r} in this database"  # used by all who raise it


class ConsumerNotFound(PgqError):
    """The consumer is not registered on the queue. Data: `.queue`, `.consumer`."""

    what_to_do = "register it with register_consumer"
    words: ClassVar[str] = "consumer {consumer!r} is not registered on queue {queue!r}"


class CronNotFound(PgqError):
    """No cron entry has this name. Data: `.name`."""

    name: str | None = None


class BatchNotFound(PgqError):
    """No open batch has this id. Data: `.batch_id`."""


class BatchLost(BatchNotFound):
    """No such batch is open, or another session holds it: nothing was finished. Data: `.batch_id`.

    Of messages: `.event_id`, and of `client.done(messages)` also `.event_ids`.
    """

    what_to_do = "undo the work on its events, if it had any: its holder receives them again"
    event_ids: list[int] | None = None


class EventNotFound(PgqError):
    """The batch has no such event. Data: `.batch_id`, `.event_id`."""


class TickNotFound(PgqError):
    """The queue has no such tick. Data: `.queue`, `.tick_id`."""


class InsertDisabled(PgqError):
    """Inserting into the queue is switched off. Data: `.queue`."""


class TransactionLimitExceeded(PgqError):
    """One transaction inserted more events than the queue allows. Data: `.queue`."""


class QueueInUse(PgqError):
    """The queue still has consumers or cron entries. Data: `.queue`."""

    what_to_do = "remove them, or drop it with force"


class InvalidArgument(PgqError):
    """An argument has a value that is not allowed. Data: `.parameter`."""


class UnknownParameter(InvalidArgument):
    """Queues have no such setting. Data: `.parameter`."""


class TickerPaused(PgqError):
    """The queue takes no ticks here: its ticker is paused or external. Data: `.queue`."""


class DatabaseRestored(PgqError):
    """Transaction ids ran backwards, as after a restore into another cluster. Data: `.queue`."""

    what_to_do = "run repair_queue"


class WrongIsolation(PgqError):
    """The call needs READ COMMITTED."""


class InstallRefused(PgqError):
    """The schema cannot be installed here."""


class CorruptQueue(PgqError):
    """The tick at a consumer's position does not exist. Data: `.queue`, `.consumer`."""


class RangeExpired(PgqError):
    """Rotation has removed events of the range.

    Data: `.queue`, `.tick_id`, and the range of ticks that are left: `.first_tick`, `.last_tick`.
    """

    first_tick: int | None = None
    last_tick: int | None = None


class SubscriptionMoved(PgqError):
    """The subscription is not at the expected tick: another program uses the consumer.

    Data: `.queue`, `.consumer`, and its present tick, `.tick_id`.
    """

    what_to_do = "give each reader a consumer of its own"


class ConnectionFailed(PgqError):
    """The connection to the database failed."""


class SchemaMissing(PgqError):
    """schema pgq is not installed in this database."""

    what_to_do = "run pgqpy schema install"


class SchemaReplaced(PgqError):
    """schema pgq was removed or replaced since this session began."""

    what_to_do = "connect again; stop every process before the schema is dropped"


class SchemaTooNew(PgqError):
    """The database's schema pgq is newer than this pgqpy.

    Data: `.installed`, `.shipped` (version numbers).
    """

    what_to_do = "upgrade pgqpy"
    installed: int | None = None
    shipped: int | None = None


class NotSupported(PgqError):
    """The pgq in this database lacks the function. Data: `.function`."""


class InvalidEvent(PgqError):
    """The event cannot be stored. Data: `.field`, in `insert_events` also `.index` (from 0)."""


class WrongEncoding(PgqError):
    """The connection's client_encoding cannot carry the text of events."""

    what_to_do = "set client_encoding to 'UTF8'"


class UnreadableEvent(PgqError):
    """An event is not valid UTF-8, or too large to be sent.

    Only a database with encoding SQL_ASCII can contain what is not UTF-8. PostgreSQL sends at most
    1 GB as one row. Data: `.batch_id` or `.queue`, `.event_id`, `.field`.
    """


class PreparedStatementLost(PgqError):
    """The connection has a new server session, behind a pooler, without prepared statements."""

    what_to_do = (
        "connect with prepare_threshold=None, through PgBouncer 1.22 or later with "
        "max_prepared_statements, or directly to the server"
    )


class ConsumerRunning(PgqError):
    """Another session runs the consumer.

    Data: `.queue`, `.consumer`, and the session that holds its lock, or waits for it: `.pid`,
    `.role`, `.application`, `.address` and `.since`, the start of that session.
    """

    pid: int | None = None
    role: str | None = None
    application: str | None = None
    address: str | None = None
    since: datetime | None = None


class WrongMode(PgqError):
    """The consumer runs in another mode: next_batch, take_part (shared) or take_lane (lanes).

    Data: `.queue`, `.consumer`.
    """

    what_to_do = "run it in its mode, or change that with set_consumer_mode while nobody runs it"


class ConsumerDetached(PgqError):
    """The consumer was too far behind, and is detached. Data: `.queue`, `.consumer`."""

    what_to_do = "see what is left: pgqpy consumer reattach"


class TooManyLeases(PgqError):
    """The consumer has 1,000 leases open. Data: `.queue`, `.consumer`."""

    what_to_do = "finish what was received, or wait until leases end"


class TransactionEnded(PgqError):
    """A handler ended the transaction of its batch."""

    what_to_do = "leave commit and rollback to the consumer; raise an exception to undo an event"


class StageLost(PgqError):
    """Some of the stages do not exist any more, so none was committed.

    They were dropped, or waited for more than a day, or the queue was repaired meanwhile. Or the
    server that took over in a failover does not have them. Or a task of a repeated epoch opened no
    stage, because the ledger had the epoch, and lost it since then.

    Data: `.queue`.
    """

    what_to_do = "write the epoch again"


class EpochChanged(PgqError):
    """The epoch was committed with other events, or a later one was; nothing was inserted."""

    what_to_do = (
        "restore the newer checkpoint, or start under a new writer name (Spark: a new "
        "checkpointLocation)"
    )


class MissingExtra(PgqError):
    """An optional package is missing."""
