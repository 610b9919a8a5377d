"""[Generated from _async/client.py by tools/unasync.py: edit that file, not this one.] The asyncio client, and the functions that connect it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Connection

from pgqpy import calls
from pgqpy.client._sync.consume import Consuming
from pgqpy.client._sync.manage import Managing
from pgqpy.client._sync.messages import Receiving
from pgqpy.client._sync.open import open_for_application, open_session
from pgqpy.client._sync.produce import Producing
from pgqpy.client.opening import PINNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from pgqpy.calls.payload import Default


class Client(Producing, Consuming, Receiving, Managing):
    """Calls the SQL functions of the queue.

    A method has the name of its function; the docstring names it otherwise. What no application
    needs is no method: `call` sends it.

    `Client(connection)` uses a psycopg connection of the application: its calls commit, or
    roll back, with the application's own work. It never commits, and changes no setting.
    `connect(dsn)` opens a connection of its own, in autocommit.

    It works with a schema newer than this pgqpy: functions keep their parameters and results, so
    applications may be upgraded after the schema. The ticker, consumers and the installer need
    more than these functions and refuse it with SchemaRefused. Calling a function that an older
    schema lacks raises SchemaMissing.

    Errors of the queue are `pgqpy.errors.PgqError`, those of PostgreSQL remain psycopg's. On the
    extension pgq a method whose function it lacks raises SchemaMissing.
    """

    def __enter__(self) -> Self:
        """Return the client; `close()` follows at the end."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connection if `connect` opened it; leave the application's alone."""
        self.close()


def connect(
    dsn: str = "",
    *,
    payload_limit: int = calls.PAYLOAD_LIMIT,
    json_default: Default | None = None,
    **parameters: Any,
) -> Client:
    """Connect to a database and return a client in autocommit; `client.transaction()` opens more.

    Its encoding is UTF-8 and its isolation READ COMMITTED, also where the database's default is
    another one, unless `options` ask for it. Everything else is as the role and database say.

    Args:
        dsn: a URL or libpq's `key=value` text; what it leaves out comes from the PG* variables.
        payload_limit: as in Client.
        json_default: as in Client.
        parameters: more for psycopg's connect, such as `application_name` or `prepare_threshold`.

    Raises ConnectionFailed, which says what to do, without a server, database, user or password.

        client = connect("postgresql://localhost/shop")
    """
    connection = open_for_application(dsn, parameters)
    return _owning_client(connection, payload_limit, json_default)


def connect_as_tool(
    dsn: str = "",
    settings: Mapping[str, str] = PINNED,
    *,
    any_owner: bool = False,
    any_session: bool = False,
    **defaults: Any,
) -> Client:
    """Connect for a tool of pgqpy, whose SQL finds no functions of other schemas.

    `defaults` are for libpq, where the DSN has none: `fallback_application_name`. The rest, and
    the errors, are those of `open_session`.
    """
    connection = open_session(
        dsn,
        settings,
        kind=Connection,
        defaults=defaults,
        any_owner=any_owner,
        any_session=any_session,
    )
    return _owning_client(connection, calls.PAYLOAD_LIMIT)


def _owning_client(
    connection: Connection[Any], payload_limit: int, json_default: Default | None = None
) -> Client:
    client = Client(connection, payload_limit=payload_limit, json_default=json_default)
    client._owned = True  # noqa: SLF001  # only here is the connection ours to close
    return client
