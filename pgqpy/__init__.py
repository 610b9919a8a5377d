"""An event log inside PostgreSQL, for Python and Spark."""

from typing import TYPE_CHECKING

from pgqpy.client import AsyncClient, AsyncMessage, Client, Message, connect, connect_async
from pgqpy.client.schema_owner import SchemaNotTrusted
from pgqpy.errors import (
    BatchLost,
    BatchNotFound,
    ConnectionFailed,
    ConsumerDetached,
    ConsumerNotFound,
    ConsumerRunning,
    CorruptQueue,
    CronNotFound,
    DatabaseRestored,
    EpochChanged,
    EventNotFound,
    InsertDisabled,
    InstallRefused,
    InvalidArgument,
    InvalidEvent,
    MissingExtra,
    NotSupported,
    PgqError,
    PreparedStatementLost,
    QueueInUse,
    QueueNotFound,
    RangeExpired,
    SchemaMissing,
    SchemaReplaced,
    SchemaTooNew,
    StageLost,
    SubscriptionMoved,
    TickerPaused,
    TickNotFound,
    TooManyLeases,
    TransactionEnded,
    TransactionLimitExceeded,
    UnknownParameter,
    UnreadableEvent,
    WrongEncoding,
    WrongIsolation,
    WrongMode,
)
from pgqpy.records import Batch, Event

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncMessage",
    "Batch",
    "BatchLost",
    "BatchNotFound",
    "Client",
    "ConnectionFailed",
    "ConsumerDetached",
    "ConsumerNotFound",
    "ConsumerRunning",
    "CorruptQueue",
    "CronNotFound",
    "DatabaseRestored",
    "EpochChanged",
    "Event",
    "EventNotFound",
    "InsertDisabled",
    "InstallRefused",
    "InvalidArgument",
    "InvalidEvent",
    "Message",
    "MissingExtra",
    "NotSupported",
    "PgqError",
    "PreparedStatementLost",
    "QueueInUse",
    "QueueNotFound",
    "RangeExpired",
    "SchemaMissing",
    "SchemaNotTrusted",
    "SchemaReplaced",
    "SchemaTooNew",
    "StageLost",
    "SubscriptionMoved",
    "TickNotFound",
    "TickerPaused",
    "TooManyLeases",
    "TransactionEnded",
    "TransactionLimitExceeded",
    "UnknownParameter",
    "UnreadableEvent",
    "WrongEncoding",
    "WrongIsolation",
    "WrongMode",
    "__version__",
    "connect",
    "connect_async",
]


if not TYPE_CHECKING:  # type checkers would take every name as defined

    def __getattr__(name: str) -> str:
        # Read on demand: on Spark's workers the package may be a copy without metadata.
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415  # see above

            return version("pgqpy")
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
