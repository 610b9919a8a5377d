"""Many workers of one shared consumer: `python swarm.py outside|effects DSN FOLDER`.

This process forks the others, each with some workers in threads, and forks another one for each
that is killed. `outside` handles events outside the database, `effects` in the transaction of the
queue. Each worker has a log of its own: see history_workers.py.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgqpy.consumers import Consumer, crash
from pgqpy.errors import ConnectionFailed
from tests.consumers.harness import private
from tests.guarantees.workload import Log

if TYPE_CHECKING:
    from pgqpy import Event

PROCESSES, THREADS = 16, 4
TAKES = 0.05, 0.3  # seconds that a handler takes, at least and at most
RAISE_ONE_OF = 10  # events, at their first delivery
DEAD_INTERVAL = 5.0  # seconds; a busy machine keeps a worker silent for longer than one


class Worker(Consumer):
    """What both kinds have in common."""

    queue, name, shared = "q", "swarm", True
    dead_interval = DEAD_INTERVAL
    backoff = (0.01, 3600.0)  # seconds
    who: str
    log: Log

    def note(self, event: Event) -> None:
        """Write the event down; raise if it is its turn to fail."""
        raised = event.retry is None and event.id % RAISE_ONE_OF == 0
        self.log.write(
            at=time.monotonic(),
            who=self.who,
            batch=private(self, "loop").held.id,
            data=event.data,
            retry=event.retry or 0,
            raised=raised,
        )
        if raised:
            raise ValueError("the first time")


class Outside(Worker):
    """Handles events outside the database: into its log."""

    def process_event(self, event: Event) -> None:
        """Take some time."""
        time.sleep(random.uniform(*TAKES))
        self.note(event)


class Effects(Worker):
    """Handles events in the transaction that finishes their batch."""

    is_transactional = True

    def process_event(  # type: ignore[override]  # the base class serves both kinds
        self, event: Event, connection: psycopg.Connection[Any]
    ) -> None:
        """Have the effect, and take some time."""
        connection.execute("insert into effect values (%s)", [event.data])
        connection.execute("select pg_sleep(%s)", [random.uniform(*TAKES)])
        self.note(event)


KINDS: dict[str, type[Outside | Effects]] = {"outside": Outside, "effects": Effects}


def keep_running(kind: str, dsn: str, folder: str, who: str) -> None:
    """Run one worker; again if the server was away when it started."""
    worker = KINDS[kind](make_conninfo(dsn, application_name=f"worker {who}"))
    worker.who, worker.log = who, Log(str(Path(folder, f"worker {who}")))
    while True:
        try:
            worker.run()
        except (ConnectionFailed, psycopg.OperationalError):
            time.sleep(0.1)
        except BaseException:  # noqa: BLE001  # the whole test is to end with it
            traceback.print_exc()
            os._exit(1)


def work(*args: str) -> None:
    """Run the workers of one process."""
    for number in range(THREADS):
        who = f"{os.getpid()}.{number}"
        threading.Thread(target=keep_running, args=(*args, who)).start()


def main(*args: str) -> None:
    """Keep the processes running until one ends by itself."""
    logging.disable(logging.CRITICAL)
    os.setpgrp()  # the test ends the group: a process that is stopped too
    running = 0
    while True:
        if running < PROCESSES:
            if os.fork() == 0:
                return work(*args)
            running += 1
        elif os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL:
            running -= 1
        else:
            sys.exit("a worker process ended by itself")


if __name__ == "__main__":
    crash.MAX_ATTEMPTS = 1_000_000  # whoever kills from outside, does not mean an event
    main(*sys.argv[1:])
