"""Where the database is. Each process finds out for itself, so that no plan needs a password."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg.conninfo import make_conninfo

from pgqpy.client import _dsn
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping


# As pgqpy.settings has it. Importing that takes a tenth of a second, in each of Spark's processes.
DSN_VARIABLE = "PGQPY_DSN"


class Database:
    """A database, as the options name it: `dsn`, `service`, or neither.

    Without either it is what PGQPY_DSN says, or libpq's PG* variables, of the driver and of each
    executor. Its repr names nothing: exceptions and plans show it.
    """

    def __init__(self, dsn: str | None = None, service: str | None = None) -> None:
        if dsn is not None and service is not None:
            raise InvalidArgument(
                "options dsn and service exclude each other: give one of them", parameter="dsn"
            )
        self._dsn = dsn
        self._service = service

    def __repr__(self) -> str:
        return "Database(…)"

    @property
    def dsn(self) -> str:
        """The connection string, found where it is asked for."""
        if self._service is not None:
            return make_conninfo(service=self._service)
        return os.environ.get(DSN_VARIABLE, "") if self._dsn is None else self._dsn

    def conninfo(self, application: str) -> str:
        """Return libpq's `key=value` text with the encoding, keepalives and name of our sessions.

        Raises:
            ConnectionFailed: the DSN cannot be read.
        """
        defaults = {"fallback_application_name": application}
        return make_conninfo(self.dsn, **_dsn.parameters(self.dsn, {}, defaults))


def database_option(options: Mapping[str, str]) -> Database:
    """Read the options (their names in lower case) that name the database."""
    return Database(options.get("dsn"), options.get("service"))
