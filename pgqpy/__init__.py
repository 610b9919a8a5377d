"""An event log inside PostgreSQL, for Python and Spark."""

from typing import TYPE_CHECKING

from pgqpy.client import (
    AsyncClient,
    AsyncMessage,
    AsyncReceiver,
    Client,
    Message,
    Receiver,
    connect,
    connect_async,
)
from pgqpy.errors import (
    BatchLost,
    ConnectionFailed,
    ConsumerDetached,
    ConsumerNotFound,
    ConsumerRunning,
    DatabaseRestored,
    InvalidArgument,
    InvalidEvent,
    LeaseLost,
    MissingExtra,
    NotFound,
    PgqError,
    QueueInUse,
    QueueNotFound,
    QueueRefused,
    RangeExpired,
    SchemaMissing,
    SchemaRefused,
    StageLost,
    WrongMode,
    WrongTransaction,
)
from pgqpy.records import Batch, Change, Event

if TYPE_CHECKING:
    from pgqpy.mirror import Mirror

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncMessage",
    "AsyncReceiver",
    "Batch",
    "BatchLost",
    "Change",
    "Client",
    "ConnectionFailed",
    "ConsumerDetached",
    "ConsumerNotFound",
    "ConsumerRunning",
    "DatabaseRestored",
    "Event",
    "InvalidArgument",
    "InvalidEvent",
    "LeaseLost",
    "Message",
    "Mirror",
    "MissingExtra",
    "NotFound",
    "PgqError",
    "QueueInUse",
    "QueueNotFound",
    "QueueRefused",
    "RangeExpired",
    "Receiver",
    "SchemaMissing",
    "SchemaRefused",
    "StageLost",
    "WrongMode",
    "WrongTransaction",
    "__version__",
    "connect",
    "connect_async",
]


if not TYPE_CHECKING:  # type checkers would take every name as defined

    def __getattr__(name: str) -> object:
        if name == "Mirror":
            from pgqpy.mirror import Mirror  # noqa: PLC0415  # the consumers are seldom needed

            return Mirror
        # Read on demand: on Spark's workers the package may be a copy without metadata.
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415  # see above

            return version("pgqpy")
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
