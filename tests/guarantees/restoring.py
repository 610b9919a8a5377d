"""Two clusters, a database in each, and dumps that are restored from one into the other."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import psycopg

from pgqpy.testing import embedded_server
from tests.guarantees.sessions import Database
from tests.support.servers import FAST, memory, other_programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.guarantees.sessions import Session

EPOCH = "7"  # transaction ids around 30,000,000,000
RESTORE_TAKES = 3_000  # transaction ids, with much to spare

_names = (f"restored_{number}" for number in itertools.count(1))


def new_cluster() -> AbstractContextManager[EmbeddedServer]:
    """Run a server with a system identifier of its own."""
    return embedded_server(settings=FAST, bin_dir=other_programs(), within=memory())


@contextmanager
def two_clusters() -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    """Run a cluster whose transaction ids are large, and one where they are small."""
    with ExitStack() as stack:
        large, small = (stack.enter_context(new_cluster()) for _ in range(2))
        large.stop()
        large.run("pg_resetwal", "--epoch", EPOCH, "-D", str(large.data))
        large.start()
        yield large, small


@contextmanager
def database(server: EmbeddedServer, name: str) -> Iterator[Database]:
    """Make a database without the schema."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
    with closing(Database(server.dsn(name))) as db:
        yield db


def write_dump(server: EmbeddedServer, db: Database, *options: str) -> Path:
    """Dump a database into a file."""
    path = server.directory / f"{db.main.connection.info.dbname}.sql"
    path.write_text(server.run("pg_dump", *options, "--dbname", db.dsn))
    return path


@contextmanager
def restored(path: Path, target: EmbeddedServer) -> Iterator[Database]:
    """Restore a dump into a new database of a cluster."""
    copy = target.directory / f"{next(_names)}.sql"
    copy.write_text(path.read_text())
    with database(target, copy.stem) as db:
        target.run(
            "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", db.dsn, "--file", str(copy)
        )
        yield db


def burn(session: Session, count: int) -> None:
    """Use transaction ids up."""
    session.run(f"""
        do $$
        begin
            for number in 1 .. {count} loop
                perform txid_current();
                commit;
            end loop;
        end $$""")
