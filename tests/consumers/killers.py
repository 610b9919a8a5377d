"""Run a consumer whose events kill it, and start it again until it ends in order.

    python killers.py DSN SHAPE TIMEOUT

Each run is a child process of this one. It prints how the children ended: exit codes, or signals
as negative numbers. The data of an event says how it kills; `end` stops the consumer.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import logging
import os
import re
import resource
import signal
import sys
import threading
from typing import Any

import psycopg

from pgqpy.consumers import AsyncConsumer, Consumer, handler_watch

QUEUE, NAME = "orders", "billing"
MOST_RUNS = 40
SHAPES: dict[str, Any] = {
    "plain": {},
    "asyncio": {},
    "transactional": {"transactional": True},
    "transactional batches": {"transactional": True, "part_size": 5000},
}
NOTE = "insert into effect (data) values (%s)"
LOG_TIME = 0.5  # seconds
GIGABYTE = 1 << 30


def take_memory():
    """Allocate more than this process may have."""
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTE, GIGABYTE))
    bytearray(4 * GIGABYTE)


WAYS = {
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "os._exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(4),
    "segfault": lambda: ctypes.string_at(0),
    "memory": take_memory,
    "hang": lambda: threading.Event().wait(),
    "regex": lambda: re.match("(a+)+$", "a" * 60 + "b"),  # keeps the interpreter's lock
}


def in_transactions(kind, wanted):
    """Return the class for handlers in transactions, if that is `wanted`."""
    return type(kind.__name__, (kind,), {"is_transactional": wanted})


class Sync(Consumer):
    """Handles events, in transactions or not."""

    queue, name = QUEUE, NAME

    def process_event(self, event, connection=None):
        """Note the event, or die of it."""
        handle(self, event, connection)


class Batches(Consumer):
    """Handles parts of batches in transactions."""

    queue, name = QUEUE, NAME

    def process_batch(self, batch, connection):
        """Note the events, or die of one."""
        for event in batch:
            handle(self, event, connection)


class Async(AsyncConsumer):
    """Handles events in a task."""

    queue, name = QUEUE, NAME

    async def process_event(self, event):
        """Note the event, or die of it."""
        handle(self, event, None)


def handle(consumer, event, connection):
    """Die of the event, or write its effect, in the consumer's transaction or in one of its own."""
    if event.data in WAYS:
        WAYS[event.data]()
    if event.data == "end":
        consumer.stop()
    if connection is not None:
        connection.execute(NOTE, [event.data])
        return
    noting().execute(NOTE, [event.data])


@functools.cache
def noting():
    """Return a connection for effects of plain handlers."""
    return psycopg.connect(sys.argv[1], autocommit=True)


def run():
    """Run one consumer to its end."""
    logging.basicConfig(level=logging.INFO)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    handler_watch.LOG_TIME = LOG_TIME
    settings = {"handler_timeout": float(sys.argv[3]), "max_retries": 0, **SHAPES[sys.argv[2]]}
    kinds: dict[str, Any] = {
        "asyncio": Async,
        "transactional batches": Batches,
    }
    kind = kinds.get(sys.argv[2], Sync)
    kind = in_transactions(kind, settings.pop("transactional", False))
    outcome = kind(sys.argv[1], **settings).run()
    if outcome is not None:
        asyncio.run(outcome)


def main():
    """Start one run after the other."""
    ends: list[int] = []
    while len(ends) < MOST_RUNS and ends[-1:] != [0]:
        pid = os.fork()
        if pid == 0:
            run()
            sys.exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sys.stdout.write(f"ends: {' '.join(map(str, ends))}\n")


if __name__ == "__main__":
    main()
