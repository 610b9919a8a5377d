"""Statements that a transactional handler left to a task or thread of its own."""

from __future__ import annotations

import pytest

from tests.consumers.harness import CONSUMER, QUEUE, SESSIONS
from tests.support.waiting import eventually

LEAVING = """
import asyncio, collections, sys, threading
import psycopg
from pgqpy.consumers import {base} as Base
from pgqpy.consumers.{package} import consumer as reconnecting

reconnecting.RECONNECT_MAX = 0.001
SLOW = "select repeat('x', 10000), pg_sleep(0.01) from generate_series(1, 1000)"
ACTIVE = psycopg.pq.TransactionStatus.ACTIVE
ends = collections.Counter()

def ended(error):
    ends[type(error).__name__] += 1
    print("%d ended\\n" % ends.total(), end="", flush=True)  # whole, beside lines of the log

class Leaving(Base):
    queue, name, backoff = {queue!r}, {name!r}, (1000, 1000)
    {handler}

consumer = Leaving(sys.argv[1])
print("running", flush=True)
{run}
print("all of them: %s" % sorted(ends), flush=True)
"""

HANDLERS = {
    "threads": """
    def process_event(self, event, connection):
        threading.Thread(target=self.left, args=(connection,)).start()
        while connection.pgconn.transaction_status != ACTIVE:
            pass

    def left(self, connection):
        try:
            connection.execute(SLOW)
        except BaseException as error:
            ended(error)
    """,
    "asyncio": """
    async def process_event(self, event, connection):
        asyncio.create_task(self.left(connection))
        while connection.pgconn.transaction_status != ACTIVE:
            await asyncio.to_thread(len, "")

    async def left(self, connection):
        try:
            await connection.execute(SLOW)
        except BaseException as error:
            ended(error)
    """,
}


@pytest.fixture(params=HANDLERS)
def leaving(request, spawn, dsn):
    """Start a process whose handlers leave a statement at each event."""
    threads = request.param == "threads"
    code = LEAVING.format(
        base="TransactionalConsumer" if threads else "AsyncTransactionalConsumer",
        package="_sync" if threads else "_async",
        queue=QUEUE,
        name=CONSUMER,
        handler=HANDLERS[request.param],
        run="consumer.run()" if threads else "asyncio.run(consumer.run())",
    )
    # glibc overwrites what is freed: whoever still reads it crashes at once, not once in a while.
    return spawn("-X", "faulthandler", "-c", code, dsn, env={"MALLOC_PERTURB_": "165"})


def test_a_statement_that_a_handler_left_ends_with_an_error_and_crashes_nothing(
    queue, leaving, connection
):
    leaving.wait_for_output("running")
    for number in range(1, 5):  # the third loss at an event sets it apart
        queue.insert("left")
        leaving.wait_for_output(f"{3 * number} ended")
        queue.wait_until_finished()
    assert leaving.terminate() == 0
    assert len(queue.retry_delays()) == 4
    assert "all of them: ['OperationalError']" in leaving.output()
    eventually(lambda: not connection.execute(SESSIONS).fetchall())
