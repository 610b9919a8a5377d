"""The guard of a session: sent ahead of our calls, it fails once schema pgq is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.errors import InvalidTextRepresentation

from pgqpy.calls import Call
from pgqpy.client.schema_owner import SCHEMA_AND_UNTRUSTED, not_trusted
from pgqpy.cluster_names import read_any_name
from pgqpy.errors import SchemaMissing, SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from pgqpy.client import Client

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
REPLACED = (
    "schema pgq was removed or replaced since this session began: "
    "connect again; stop every process before the schema is dropped"
)


class SchemaGuard:
    """The guard of one session, for the schema whose owners were right when it looked.

    The runner of our own client has one. A client that a handler makes of the same connection has
    none: a guard and a call are a pipeline, and a statement that another task or thread of the
    handler sends by psycopg itself would get into it.
    """

    def __init__(self, row: Sequence[Any] | None) -> None:
        """Take the row of SCHEMA_AND_UNTRUSTED. Raises SchemaMissing, SchemaRefused."""
        schema, *untrusted = row or (None,)
        if schema is None:
            raise SchemaMissing
        if untrusted[0] is not None:
            raise not_trusted(*untrusted)
        self.query = _QUERY.format(int(schema)).as_string(None)
        self.call: Call[None] = Call("to_regnamespace", self.query, (), lambda _rows: None)

    @classmethod
    def look(cls, connection: Connection[Any]) -> SchemaGuard:
        """Look at the owners of schema pgq. Raises SchemaMissing, SchemaRefused."""
        cursor = read_any_name(connection.cursor())
        return cls(cursor.execute(SCHEMA_AND_UNTRUSTED).fetchone())


def check_schema(client: Client) -> None:
    """Send the guard by itself, ahead of statements that are no calls. Raises SchemaRefused."""
    guard = client.runner.guard
    if guard is not None:
        try:
            client.connection.execute(guard.query.encode())
        except GUARD_FAILED as error:
            raise SchemaRefused(REPLACED) from error
