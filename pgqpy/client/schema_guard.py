"""The guard of a session: sent ahead of our calls, it fails once schema pgq is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from psycopg import sql
from psycopg.errors import InvalidTextRepresentation

from pgqpy.calls import Call
from pgqpy.client.schema_owner import SCHEMA_AND_UNTRUSTED, not_trusted
from pgqpy.errors import SchemaMissing, SchemaReplaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection, Connection

    AnyConnection = AsyncConnection[Any] | Connection[Any]

# A session looks at the owners of schema pgq when it begins. Were the schema dropped later, any
# role with CREATE on the database could make one of that name, and our next call would be one of
# its functions. So this statement precedes our calls, in the same round trip. It names nothing
# outside pg_catalog, and fails unless the name still leads to the schema whose owners were right;
# the server then skips what follows. A condition within a call would come too late: the server
# runs code of a function that a statement names while it plans the statement. What follows is
# parsed after this ran. Not covered: a call that has begun, and waits for a lock of DROP SCHEMA,
# may go on in a new schema that is committed at the same moment.
# The cast fails at execution only, because its text is no constant.
_QUERY = sql.SQL("""
    select cast(case when pg_catalog.to_regnamespace('pgq')::pg_catalog.oid
                          operator(pg_catalog.=) {}::pg_catalog.oid
                     then '1' else 'schema pgq is not the one that was checked'
                end as pg_catalog.int4)
""")
GUARD_FAILED = InvalidTextRepresentation
_schemas: WeakKeyDictionary[AnyConnection, int] = WeakKeyDictionary()  # oids


def trust_schema(connection: AnyConnection, row: Sequence[Any] | None) -> None:
    """Note which schema pgq this session may call. `row` is what SCHEMA_AND_UNTRUSTED returned.

    Raises SchemaMissing, SchemaNotTrusted.
    """
    schema, *untrusted = row or (None,)
    if schema is None:
        raise SchemaMissing
    if untrusted[0] is not None:
        raise not_trusted(*untrusted)
    _schemas[connection] = int(schema)


def guard_query(connection: AnyConnection) -> str | None:
    """Return the statement to send ahead of calls; None where nobody looked at the owners."""
    oid = _schemas.get(connection)
    return None if oid is None else _QUERY.format(oid).as_string(None)


def guard_calls(connection: AnyConnection) -> tuple[Call[None], ...]:
    """Return the guard as a call: none, or one."""
    query = guard_query(connection)
    return () if query is None else (Call("to_regnamespace", query, (), lambda _rows: None),)


def guard_no_other_client(connection: AnyConnection) -> None:
    """Let clients that are made from now on call as an application's do, without a guard.

    Tasks and threads may share a connection. A call is one statement then, whose lock psycopg
    takes; a guard and a call are a pipeline, which two of them would enter at once.
    """
    _schemas.pop(connection, None)


def look_at_schema(connection: Connection[Any]) -> None:
    """Look at the owners of schema pgq, and trust it. Raises SchemaMissing, SchemaNotTrusted."""
    trust_schema(connection, connection.execute(SCHEMA_AND_UNTRUSTED).fetchone())


def run_guard(connection: Connection[Any]) -> None:
    """Send the guard by itself, ahead of statements that are no calls. Raises SchemaReplaced."""
    query = guard_query(connection)
    if query is not None:
        try:
            connection.execute(query.encode())
        except GUARD_FAILED as error:
            raise SchemaReplaced from error
