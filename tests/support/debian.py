"""Debian's PostgreSQL 15 with the extension pgq, for comparison with ours."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from tests.support.databases import new_database
from tests.support.servers import FAST, private_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.testing import EmbeddedServer

BIN_DIR = Path("/usr/lib/postgresql/15/bin")
EXTENSION = Path("/usr/share/postgresql/15/extension/pgq.control")
WHY_SKIPPED = "Debian's packages postgresql-15 and postgresql-15-pgq3 are not installed"


def extension_installed() -> bool:
    """Say whether the extension pgq can be used on this machine."""
    return (BIN_DIR / "initdb").exists() and EXTENSION.exists()


@contextmanager
def debian_server() -> Iterator[tuple[EmbeddedServer, str]]:
    """Run a cluster of Debian's PostgreSQL; yield it and a template with the extension."""
    with (
        private_server(FAST, BIN_DIR) as server,
        new_database(server) as template,
    ):
        with psycopg.connect(server.dsn(template), autocommit=True) as connection:
            connection.execute("create extension pgq")
        yield server, template
