"""What lives through faults: producers with transactions of every kind, and a consumer.

What producers write down: see history.py.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.consumers import TransactionalConsumer
from tests.guarantees.sessions import ISOLATIONS, Session

if TYPE_CHECKING:
    from pgqpy import Event

BETWEEN = 0.004  # seconds between two transactions of a producer


class Log:
    """A file that each line reaches as soon as it is written."""

    def __init__(self, path: str) -> None:
        """Append."""
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # for the whole process

    def write(self, **line: Any) -> None:
        """Write one line."""
        self._file.write(json.dumps(line).encode() + b"\n")


class Producer:
    """Transactions of all kinds, one after the other, on a connection that may break."""

    between = BETWEEN

    def __init__(self, dsn: str, log: Log) -> None:
        """Connect when it is time."""
        self.dsn, self.log = dsn, log
        self.choose = random.Random(os.getpid())
        self.number = 0
        self.session: Session | None = None
        self.table = ""

    def run(self) -> None:
        """Go on until killed."""
        while True:
            self._transaction(
                keep=[self._name() for _ in range(self.choose.randint(1, 3))],
                drop=[self._name() for _ in range(self.choose.choice((0, 0, 0, 1)))],
                commit=self.choose.random() < 0.9,
            )
            time.sleep(self.between)

    def _name(self) -> str:
        self.number += 1
        return f"{os.getpid()}:{self.number}"

    def _transaction(self, *, keep: list[str], drop: list[str], commit: bool) -> None:
        self.log.write(at=time.monotonic(), keep=keep, drop=drop)
        outcome = "aborted"
        try:
            session = self.session = self.session or self._connect()
            self._write(session, keep, drop)
            if commit:
                outcome = "unknown"
                session.commit()
                outcome = "committed"
            else:
                session.rollback()
        except psycopg.errors.SerializationFailure:
            outcome = "aborted"
        except psycopg.OperationalError:
            self.session = None
        finally:
            self.log.write(at=time.monotonic(), outcome=outcome)
        if outcome == "aborted" and self.session is not None:
            try:
                self.session.rollback()
            except psycopg.OperationalError:  # killed just now: what was not committed is gone
                self.session = None

    def _connect(self) -> Session:
        session = Session(self.dsn)
        self.table = session.current_table()  # used however often the queue rotates
        return session

    def _write(self, session: Session, keep: list[str], drop: list[str]) -> None:
        session.begin(self.choose.choice(ISOLATIONS))
        if drop:
            session.run("savepoint one")
            for data in drop:
                session.insert(data)
            session.run("rollback to one")
        if self.choose.random() < 0.3:
            session.copy(self.table, *keep)
        else:
            for data in keep:
                session.insert(data)
        session.connection.execute("insert into marker select unnest(%s::text[])", [keep])


class Effects(TransactionalConsumer):
    """Processes events in the queue's database, in the transaction that finishes the batch."""

    queue = "q"
    name = "effects"
    log: Log

    def process_event(self, event: Event, connection: psycopg.Connection[Any]) -> None:
        """Have the effect."""
        connection.execute("insert into effect values (%s)", [event.data])
