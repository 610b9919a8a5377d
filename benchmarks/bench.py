"""The tools that a case gets: a server, databases, the ticker, and the length of the run."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgqpy
from benchmarks import peers
from benchmarks.figures import verify
from pgqpy import install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.server import Server

T = TypeVar("T")
Length = Literal["smoke", "default", "long"]

TEMPLATE = "pgqpy_template"
THOUSAND = "thousand"
QUEUES = [f"q{number:04}" for number in range(1, 1001)]
TICKER_START = 30  # seconds
SYNC = {True: "sync on", False: "sync off"}  # the two columns: synchronous_commit
# What a running ticker is known by: it holds the lock that picks the active one.
LEADER = """select 1 from pg_locks where locktype = 'advisory' and granted and classid = 7366513
    and objid = 0 and database = (select oid from pg_database where datname = current_database())"""


def one_value(connection: psycopg.Connection[Any], query: str, *params: object) -> Any:
    """Return the one value that a query finds."""
    rows = connection.execute(query.encode(), params or None).fetchall()
    verify(f"rows of {query}", len(rows), 1)
    return rows[0][0]


@dataclass
class Bench:
    """The run of one case.

    Attributes:
        server: the server that all contestants share.
        length: how long the run may be.
        rounds: how often each contestant runs.
        alone: leave out all peers except the bare table.
        case: the case that runs, for the lines of progress.
    """

    server: Server
    length: Length = "default"
    rounds: int = 3
    alone: bool = False
    case: str = ""
    _made: set[str] = field(default_factory=set)

    def pick(self, *, smoke: T, default: T, long: T) -> T:
        """Return the value for this length."""
        return {"smoke": smoke, "default": default, "long": long}[self.length]

    def has(self, peer: str) -> bool:
        """Say whether a peer takes part: always, except in a smoke where it is not installed."""
        if self.alone:
            return peer == "bare"
        return self.server.peers if peer == "pgq" else peers.installed(peer)

    def say(self, text: str) -> None:
        """Report progress on standard error."""
        print(f"{self.case}: {text}", file=sys.stderr, flush=True)

    def database(self, name: str, *, template: str | None = None) -> str:
        """Return the connection string of a fresh database; one of that name is dropped first."""
        self.drop(name)
        statement = sql.SQL("create database {} template {}").format(
            sql.Identifier(name), sql.Identifier(template or "template1")
        )
        with self._postgres() as connection:
            connection.execute(statement)
        return self.server.dsn(name)

    def drop(self, name: str) -> None:
        """Drop a database if it is there."""
        with self._postgres() as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def pgqpy_database(self, name: str = "pgqpy") -> str:
        """Return the connection string of a fresh database with pgqpy's schema."""
        if TEMPLATE not in self._made:
            with psycopg.connect(self.database(TEMPLATE), autocommit=True) as connection:
                install.install(connection)
            self._made.add(TEMPLATE)
        return self.database(name, template=TEMPLATE)

    def thousand(self) -> str:
        """Return a database with pgqpy's schema and the queues QUEUES.

        It is made once and shared by the cases: a case leaves its queues empty.
        """
        if THOUSAND not in self._made:
            self.say("making 1,000 queues")
            dsn = self.pgqpy_database(THOUSAND)
            with pgqpy.connect(dsn) as client:
                for start in range(0, len(QUEUES), 100):
                    with client.transaction():
                        for queue in QUEUES[start : start + 100]:
                            client.create_queue(queue)
            self._made.add(THOUSAND)
        return self.server.dsn(THOUSAND)

    def peer_database(self, peer: str, name: str | None = None) -> str:
        """Return the connection string of a fresh database with a peer's schema."""
        dsn = self.database(name or peer)
        peers.load(peer).set_up(dsn)
        return dsn

    def options(self, *, sync: bool) -> str:
        """Return libpq's options (PGOPTIONS) for one of the two columns."""
        return f"-c synchronous_commit={'on' if sync else 'off'}"

    def dsn_with(self, dsn: str, *, sync: bool) -> str:
        """Return the connection string with the session's synchronous_commit in it."""
        return make_conninfo(dsn, options=self.options(sync=sync))

    @contextmanager
    def ticker(self, dsn: str, *args: str) -> Iterator[psutil.Popen]:
        """Run the real ticker on a database for as long as the block lasts; it is active then."""
        command = [
            sys.executable,
            "-m",
            "pgqpy",
            "ticker",
            "run",
            "--log-level",
            "error",
            "--dsn",
            dsn,
        ]
        process = psutil.Popen([*command, *args], stdin=subprocess.DEVNULL)
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                self._wait_for_leader(connection, process)
            yield process
        finally:
            process.terminate()
            process.wait()

    def _wait_for_leader(self, connection: psycopg.Connection, process: psutil.Popen) -> None:
        deadline = time.monotonic() + TICKER_START
        while not connection.execute(LEADER).fetchone():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the ticker did not start")
            time.sleep(0.01)

    def _postgres(self) -> psycopg.Connection:
        return psycopg.connect(self.server.dsn(), autocommit=True)
