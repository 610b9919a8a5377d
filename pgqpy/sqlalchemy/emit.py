"""Events in the transaction of a session, whatever its driver is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from pgqpy import calls
from pgqpy.errors import InvalidArgument, WrongTransaction
from pgqpy.sqlstates import from_database

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pgqpy.calls import Call, Payload
    from pgqpy.calls.payload import Dataclass
    from pgqpy.calls.produce import EmitOptions
    from pgqpy.typed_events import TypedEvent

    AnySession = Session | scoped_session[Any] | Connection
    AnyAsyncSession = AsyncSession | async_scoped_session[Any] | AsyncConnection

T = TypeVar("T")

TAKES = "emit takes a Session or Connection, await aemit an AsyncSession or AsyncConnection"
NO_TRANSACTION = "25P01"
AUTOCOMMIT = (
    "the session is in autocommit, so the event would belong to no transaction: use an engine "
    "without isolation_level AUTOCOMMIT, or pgqpy.connect(dsn).insert_event, which commits alone"
)


def emit(
    session: AnySession,
    queue: str | TypedEvent | Dataclass,
    type: str | None = None,
    data: Payload = None,
    **options: Unpack[EmitOptions],
) -> int:
    """Insert one event in the transaction of a session, or connection; return the event's id.

    `queue` is a name, or a typed event, which leaves out `type`, `data` and `key`. `type`, `data`
    and the options are those of `Client.insert_event`; `key` is extra1, and `json_default` converts
    what has no form in JSON. The driver is psycopg, psycopg2 or asyncpg. It does not flush. An
    error undoes only the call: the transaction goes on.

    Raises what `Client.insert_event` raises, and WrongTransaction if the session is in autocommit.

        emit(session, "orders", "placed", {"order": order.id}, key=order.customer)
    """
    if not isinstance(session, (Session, scoped_session, Connection)):
        raise TypeError(f"{TAKES}: this is of class {session.__class__.__name__}")
    return run(session, calls.produce.emit(queue, type, data, **options))


async def aemit(
    session: AnyAsyncSession,
    queue: str | TypedEvent | Dataclass,
    type: str | None = None,
    data: Payload = None,
    **options: Unpack[EmitOptions],
) -> int:
    """Do what `emit` does, for an AsyncSession or an AsyncConnection."""
    if isinstance(session, async_scoped_session):
        session = session()
    if not isinstance(session, (AsyncSession, AsyncConnection)):
        raise TypeError(f"{TAKES}: this is of class {session.__class__.__name__}")
    return await session.run_sync(run, calls.produce.emit(queue, type, data, **options))


def run(session: AnySession, call: Call[T]) -> T:
    """Send a call in a savepoint of the session's transaction, and return its result."""
    connection = session if isinstance(session, Connection) else session.connection()
    if connection.dialect.name != "postgresql":
        msg = (
            f"the session is bound to {connection.dialect.name}, and events go to PostgreSQL: give "
            "a session of the queue's database, or use pgqpy.connect(dsn).insert_event"
        )
        raise InvalidArgument(msg, parameter="session")
    # As the driver takes it. SQLAlchemy's text() would take the casts for parameters.
    sql = call.numbered() if connection.dialect.paramstyle == "numeric_dollar" else call.sql
    try:
        with connection.begin_nested():  # not the session's: it would flush, and expire objects
            rows: Any = connection.exec_driver_sql(sql, call.params).fetchall()
    except DBAPIError as exc:
        # asyncpg's own error is the cause of the one that SQLAlchemy makes of it.
        error: Any = exc.orig
        error = error if hasattr(error, "diag") else error.__cause__
        if NO_TRANSACTION in (getattr(error, name, "") for name in ("sqlstate", "pgcode")):
            raise WrongTransaction(AUTOCOMMIT, sqlstate=NO_TRANSACTION) from exc
        found = from_database(error, call.function, call.error_data)
        if found is None:
            raise
        raise found from exc
    return call.decode(rows)
