"""Run workers and receivers of one consumer in turn, until an event that kills is given up.

    python both_kinds.py DSN ORDER MAX_ATTEMPTS MOST

ORDER names the kinds, such as `worker,receiver`. A worker gives up by MAX_ATTEMPTS, a receiver when
`attempt` is larger than MOST. Each process is a child of this one, which prints the kinds of those
that died. A lease ends with its receiver, so that nobody has to wait for it.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading

import psycopg

import pgqpy
from pgqpy.consumers import Consumer, crash

QUEUE, NAME = "orders", "billing"
MOST_DEATHS = 40
LIMIT = 4  # messages of a lease
NOTE = "insert into effect (data) values (%s)"
END = "update pgq.position set pos_until = now() - interval '1 day' where pos_holder = 'receive'"
OPEN = """
    select exists (select from pgq.current_position where pos_batch is not null)
        or (select max(tick_id) from pgq.tick) > (
            select max(pos_last_tick) from pgq.current_position where sub_parent is null)
"""


class Worker(Consumer):
    """Handles events one by one."""

    queue, name, shared = QUEUE, NAME, True

    def process_event(self, event):
        """Note the event, or die of it."""
        handle(event)


def handle(event):
    """Die of the event, or write its effect."""
    if event.data == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    with psycopg.connect(sys.argv[1]) as connection:
        connection.execute(NOTE, [event.data])


def while_open():
    """Look again and again whether events are open; the server may not know yet who died."""
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        while connection.execute(OPEN).fetchone() == (True,):
            yield
            threading.Event().wait(0.02)


def work():
    """Run a worker until everything is finished."""
    crash.MAX_ATTEMPTS = int(sys.argv[3])
    consumer = Worker(sys.argv[1])

    def watch():
        for _ in while_open():
            pass
        consumer.stop()

    threading.Thread(target=watch, daemon=True).start()
    consumer.run()


def receive():
    """Receive messages until everything is finished."""
    with pgqpy.connect(sys.argv[1]) as client:
        for _ in while_open():
            for message in client.receive(QUEUE, NAME, limit=LIMIT, lease=3600, wait=0):
                if message.attempt > int(sys.argv[4]):
                    message.dead("gave up")
                else:
                    handle(message.event)
                    message.done()


def main():
    """Start one process after the other."""
    died: list[str] = []
    for kind in itertools.cycle(sys.argv[2].split(",")):
        pid = os.fork()
        if pid == 0:
            {"worker": work, "receiver": receive}[kind]()
            sys.exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
            break
        died.append(kind)
        if len(died) == MOST_DEATHS:
            break
        with psycopg.connect(sys.argv[1]) as connection:
            connection.execute(END)
    sys.stdout.write(f"died: {' '.join(died)}\n")


if __name__ == "__main__":
    main()
