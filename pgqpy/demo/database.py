"""The demo's database: on an embedded server, or on the one that `--dsn` names."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgqpy.demo.balances import QUEUE
from pgqpy.embedded import wheel_programs
from pgqpy.errors import MissingExtra
from pgqpy.sandbox import database
from pgqpy.sandbox.abort import RunFailed
from pgqpy.sandbox.user_database import Contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENTS = Contents(command="demo", queue=QUEUE, schema="pgqpy_demo")


@dataclass(frozen=True)
class DemoDatabase(database.Database):
    """A database with the schemas pgq and pgqpy_demo, and the program pgbench."""

    pgbench: str  # its path


@contextmanager
def open_database(
    dsn: str | None, clients: int, say: Callable[[str], None]
) -> Iterator[DemoDatabase]:
    """Start a PostgreSQL (None), or use a running one; remove what is the demo's at the end.

    Raises MissingExtra, ConnectionFailed; RunFailed or SchemaRefused if the demo cannot run there.
    """
    pgbench = "" if dsn is None else find_pgbench()
    with (
        database.embedded_database(CONTENTS, clients, say)
        if dsn is None
        else database.existing_database(dsn, CONTENTS, say)
    ) as opened:
        if opened.programs is not None:
            pgbench = str(opened.programs / "pgbench")
        yield DemoDatabase(opened.dsn, opened.logs, opened.programs, pgbench)


def find_pgbench() -> str:
    """Return the path of the wheel's pgbench, or else of the one on PATH."""
    try:
        return str(wheel_programs() / "pgbench")
    except MissingExtra:
        found = shutil.which("pgbench")
    if found is None:
        raise RunFailed('pgbench is needed: pip install "pgqpy[embedded]", or put it on PATH')
    return found
