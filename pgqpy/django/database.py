"""The database of the queues in settings.DATABASES, and `emit` over Django's connection to it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import Error, connections
from django.db.models import Model
from django.utils.functional import Promise
from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgqpy import Client, calls
from pgqpy.errors import InvalidArgument
from pgqpy.sqlstates import from_database

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pgqpy.calls import Call, Payload
    from pgqpy.calls.payload import Dataclass
    from pgqpy.calls.produce import EmitOptions
    from pgqpy.typed_events import TypedEvent

T = TypeVar("T")

SAVEPOINT, RELEASE = "savepoint pgqpy_emit", "release savepoint pgqpy_emit"
UNDO = f"rollback to {SAVEPOINT}; {RELEASE}"

_django_default = DjangoJSONEncoder().default


def emit(
    queue: str | TypedEvent | Dataclass,
    type: str | None = None,
    data: Payload = None,
    *,
    using: str | None = None,
    **options: Unpack[EmitOptions],
) -> int:
    """Insert one event over Django's connection, in its transaction; return the event's id.

    `queue` is a name, or a typed event, which leaves out `type`, `data` and `key`. `type`, `data`
    and the options are those of `Client.insert_event`; `key` is extra1. Lazy texts, model instances
    (their pk) and what DjangoJSONEncoder knows have a form in JSON too. `using` is an alias of
    DATABASES, in place of that of settings.PGQPY. An error undoes only the call: the transaction
    goes on.

    Raises what `Client.insert_event` raises.

        emit("orders", "placed", {"order": order, "due": order.due}, key=order.customer)
    """
    options.setdefault("json_default", to_json)
    for name in ("key", "extra2", "extra3", "extra4"):
        if name in options:
            options[name] = _text(options[name])
    return run(calls.produce.emit(queue, type, _text(data), **options), using)


def run(call: Call[T], using: str | None = None) -> T:
    """Send a call over Django's connection, in a savepoint if a transaction may be open."""
    connection = connections[alias_of(using)]
    statements = [call.sql] if connection.get_autocommit() else [SAVEPOINT, call.sql, RELEASE]
    try:
        with connection.cursor() as cursor:
            try:
                return call.decode(_rows(connection, cursor, statements, call.params))
            except Error:
                if len(statements) > 1:
                    with suppress(Error):  # the connection is lost
                        cursor.execute(UNDO)
                raise
    except Error as exc:
        cause = exc.__cause__
        found = from_database(cause, call.function, call.error_data) if cause else None
        if found is None:
            raise
        raise found from exc


def _rows(connection: Any, cursor: Any, statements: list[str], params: Any) -> list[Any]:
    """Send the statements, of which one has parameters and rows; return these.

    Django's usual cursor writes parameters into the text, so all are one round trip. That of
    server_side_binding takes one statement at a time.
    """
    if not connection.settings_dict["OPTIONS"].get("server_side_binding"):
        cursor.execute("; ".join(statements), params)
        if len(statements) > 1:
            cursor.nextset()
        return list(cursor.fetchall())
    rows: list[Any] = []
    for statement in statements:
        cursor.execute(statement, params if "%s" in statement else None)
        rows += cursor.fetchall() if cursor.description else []
    return rows


def to_json(value: Any) -> Any:
    """Return the form in JSON of what only Django knows; TypeError if there is none."""
    if isinstance(value, Model):
        if value.pk is None:
            raise ValueError("it has no pk: save it first")
        return value.pk
    return _django_default(value)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Promise) else value


def alias_of(using: str | None = None) -> str:
    """Return the alias of the queues' database. Raises InvalidArgument, with what to write."""
    named = "using" if using else 'PGQPY["database"]'
    alias = using or getattr(settings, "PGQPY", {}).get("database", "default")
    if alias not in connections:
        msg = f"{named} is {alias!r}, and DATABASES has {', '.join(connections)}"
        raise InvalidArgument(msg, parameter="using")
    vendor = connections[alias].vendor
    if vendor != "postgresql":
        msg = (
            f"database {alias!r} is {vendor}, and queues are in PostgreSQL: name the alias of "
            'their database in settings.py, such as PGQPY = {"database": "events"}'
        )
        raise InvalidArgument(msg, parameter="using")
    return alias


def dsn_of(alias: str) -> str:
    """Return where Django connects for an alias, as libpq's connection string."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    wanted = connections[alias].get_connection_params()
    return make_conninfo(**{name: wanted[name] for name in wanted if name in known})


def client_of(alias: str) -> Client:
    """Return a client over Django's connection, which is opened if it is not."""
    connections[alias].ensure_connection()
    return Client(connections[alias].connection)
