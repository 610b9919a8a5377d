"""Workers: they handle what they receive, in one of the ways that users do, and some die of it."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import psycopg

from tests.stress.producers import connect

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

LEASE = 2  # seconds
LIMITS = (1, 1, 3, 10, 60, 300)
WHATS = ("done", "retry", "release")
MEANWHILE = ("PQ020", "PQ025")  # the consumer was made plain
WEIGHTS = (987, 10, 3)
LENGTH = """
    select count(*) from pgq.inflight join pgq.registration on run_sub = sub_id
      join pgq.consumer on co_id = sub_consumer where co_name = %s"""


class _LeaseLost(Exception):
    """The claim is not the worker's any more."""


def work(dsn: str, consumer: str, has_holder: bool, stop: Event, pause: Event | None) -> None:
    """Receive and handle until told to stop and nothing is left."""
    while True:
        try:
            with connect(dsn) as connection:
                holder = None
                if has_holder:
                    hold = "select pgq.hold('q', %s, %s, %s)"
                    params = [consumer, f"stress:{os.getpid()}", f"{LEASE} s"]
                    holder = _one(connection, hold, *params)
                worker = _Worker(connection, consumer, holder)
                while not (worker.is_done() and stop.is_set()):
                    while pause is not None and pause.is_set():
                        time.sleep(0.05)
                return
        except (psycopg.OperationalError, psycopg.errors.CrashShutdown):
            continue
        except psycopg.Error as error:
            if error.sqlstate not in MEANWHILE:
                raise
            time.sleep(0.05)


def _one(connection: psycopg.Connection[Any], query: str, *params: Any) -> Any:
    row = connection.execute(query.encode(), params).fetchone()
    return row and row[0]


class _Worker:
    def __init__(
        self, connection: psycopg.Connection[Any], consumer: str, holder: int | None
    ) -> None:
        self._connection = connection
        self._consumer = consumer
        self._holder = holder
        self._dice = random.Random()
        self._batch: list[Any] = []
        self._token = 0

    def is_done(self) -> bool:
        """Handle one claim; True if there was none, and nothing is in flight."""
        renew = "select pgq.renew(%s, %s)"
        if self._holder and not _one(self._connection, renew, self._holder, f"{LEASE} s"):
            params: list[Any] = [self._consumer, f"stress:{os.getpid()}", f"{LEASE} s"]
            self._holder = _one(self._connection, "select pgq.hold('q', %s, %s, %s)", *params)
        receive = """
            select ev_id, ev_type, ev_data::bigint, ev_extra1, attempts, token
              from pgq.receive('q', %s, %s, %s, %s, true)"""
        limit = self._dice.choice(LIMITS)
        params = [self._consumer, limit, f"{LEASE} s", self._holder]
        events = self._connection.execute(receive, params).fetchall()
        if not events:
            time.sleep(self._dice.uniform(0.005, 0.03))
            return not _one(self._connection, LENGTH, self._consumer)
        self._token = events[0][5]
        self._batch = []
        try:
            self._handle(events)
        except _LeaseLost:
            self._batch = []
        return False

    def _handle(self, events: list[Any]) -> None:
        flushes_each = self._dice.random() < 0.6
        parked: set[str] = set()
        for event in events:
            event_id, kind, _, key, attempts, _ = event
            if self._consumer == "ordered" and key in parked:
                continue
            if kind == "killer":
                os.kill(os.getpid(), signal.SIGKILL)
            self._dawdle(kind, attempts)
            what = "dead" if kind == "bad" else self._dice.choices(WHATS, WEIGHTS)[0]
            if what == "done":
                self._batch.append(event)
            if what != "done" or flushes_each:
                self._flush()
                self._call(what, event_id)
            if what == "release":
                return
            parked |= {key} if what == "retry" else set()
        self._flush()

    def _dawdle(self, kind: str, attempts: int) -> None:
        """Take longer than the lease at the first attempt; at the second, extend it."""
        if kind == "slow" and attempts == 1:
            time.sleep(LEASE + 0.4)
        elif kind == "slow" and attempts == 2:
            extend = "select pgq.extend('q', %s, %s, %s)"
            self._connection.execute(extend, [self._consumer, self._token, f"{2 * LEASE} s"])
            time.sleep(LEASE + 0.4)

    def _call(self, what: str, event_id: int) -> None:
        last: dict[str, list[Any]] = {
            "dead": [[event_id], "bad"],
            "retry": [[event_id], self._dice.choice(("0 s", "0.1 s", "0.5 s"))],
            "release": [],
        }
        if what not in last:
            return
        params = [self._consumer, self._token, *last[what]]
        query = f"select pgq.{what}('q'{', %s' * len(params)})"
        self._connection.execute(query.encode(), params)

    def _flush(self) -> None:
        """Write down what was handled, in the transaction that says done."""
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        with self._connection.transaction():
            for event_id, _, number, key, _, _ in batch:
                log = "insert into handled (consumer, ev_id, key, n) values (%s, %s, %s, %s)"
                self._connection.execute(log, [self._consumer, event_id, key, number])
            done = "select pgq.done('q', %s, %s, %s)"
            ids = [event[0] for event in batch]
            ended = _one(self._connection, done, self._consumer, self._token, ids)
            if self._dice.random() < 0.05:
                time.sleep(0.05)
            if ended < len(batch):
                raise _LeaseLost
