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
    UnreadableEvent,
    WrongMode,
    WrongTransaction,
)
from pgqpy.records import Batch, Change, Event

if TYPE_CHECKING:
    from pgqpy.mirror import Mirror
    from pgqpy.typed_events import TypedEvent, typed_event

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
    "TypedEvent",
    "UnreadableEvent",
    "WrongMode",
    "WrongTransaction",
    "__version__",
    "connect",
    "connect_async",
    "typed_event",
]


if not TYPE_CHECKING:  # type checkers would take every name as defined

    def __getattr__(name: str) -> object:
        if name == "Mirror":
            from pgqpy.mirror import Mirror  # noqa: PLC0415  # the consumers are seldom needed

            return Mirror
        if name in {"TypedEvent", "typed_event"}:
            from pgqpy import typed_events  # noqa: PLC0415  # pydantic takes 0.1 s

            return getattr(typed_events, name)
        # Read on demand: on Spark's workers the package may be a copy without metadata.
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415  # see above

            return version("pgqpy")
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
