"""The database that the options or the environment of each process name."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo

from pgqpy.errors import InvalidArgument
from pgqpy.settings import default_dsn


class Database:
    """The database of the queue, from the option `dsn`, the option `service`, or neither.

    With neither, the driver and each executor read PGQPY_DSN or libpq's PG* variables of their own
    process, so that no password travels. The repr is empty, because plans and exceptions show it.
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
        """The connection string, resolved in the process that calls this."""
        if self._service is not None:
            return make_conninfo(service=self._service)
        return default_dsn() if self._dsn is None else self._dsn
