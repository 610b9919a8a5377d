"""What hangs beside the code of handlers: their statements and commits."""

from __future__ import annotations

import pytest

from pgqpy.consumers._sync.session import Session
from tests.consumers.harness import CONSUMER, QUEUE
from tests.support.waiting import eventually

THREADS = f"""
import asyncio, sys
from pgqpy.consumers import AsyncTransactionalConsumer, TransactionalConsumer

class Process(TransactionalConsumer):
    queue, name = {QUEUE!r}, {CONSUMER!r}

    def process_event(self, event, connection):
        connection.execute(sys.argv[2])
        self.stop()

"""
ASYNCIO = (
    THREADS.replace("(TransactionalConsumer)", "(AsyncTransactionalConsumer)")
    .replace("def process", "async def process")
    .replace("connection.execute", "await connection.execute")
)
RUN = {
    "threads": THREADS + "Process(sys.argv[1], **eval(sys.argv[3])).run()",
    "asyncio": ASYNCIO + "asyncio.run(Process(sys.argv[1], **eval(sys.argv[3])).run())",
}
INTERVAL = "show client_connection_check_interval"


@pytest.mark.parametrize("end", ["SIGKILL", "handler_timeout"])
@pytest.mark.parametrize("kind", sorted(RUN))
def test_the_session_ends_with_its_process_so_the_next_process_starts(
    queue, dsn, spawn, gate, kind, end
):
    settings = {"handler_timeout": 1 if end == "handler_timeout" else None}
    queue.insert("a")
    process = spawn("-c", RUN[kind], dsn, gate.wait_sql, repr(settings))
    first = gate.wait_for_arrival()
    if end == "SIGKILL":
        process.kill()
    assert process.wait() == (-9 if end == "SIGKILL" else 1)
    again = spawn("-c", RUN[kind], dsn, gate.wait_sql, "{}")
    eventually(lambda: again.popen.poll() is not None or gate.waiting() not in ([], [first]))
    assert again.popen.poll() is None, again.output()
    assert first not in gate.waiting()
    gate.open()
    assert again.wait() == 0


@pytest.mark.parametrize("wrong", [b"set no_such_setting = 1", b"set work_mem = 1"])
def test_a_server_that_cannot_look_at_its_client_does_without(dsn, monkeypatch, wrong):
    monkeypatch.setattr("pgqpy.consumers._sync.session.LOOK_AT_CLIENT", wrong)
    session = Session.open(dsn, "test")
    assert session.connection.execute(INTERVAL).fetchone() == ("0",)
    session.close()


DEFERRED = """
    create function wait() returns trigger language plpgsql as
        $$ begin if new.data = 'hangs' then perform {}; end if; return null; end $$;
    create constraint trigger wait after insert on effect initially deferred
        for each row execute function wait();
"""


@pytest.mark.parametrize("kind", sorted(RUN))
def test_a_commit_that_hangs_ends_the_process_as_a_handler_does(
    queue, dsn, spawn, effects, gate, connection, kind
):
    connection.execute(DEFERRED.format(gate.wait_sql.removeprefix("select ")))
    queue.insert("a")
    note = "insert into effect (data) values ('hangs')"
    process = spawn("-c", RUN[kind], dsn, note, "{'handler_timeout': 1}")
    first = gate.wait_for_arrival()
    assert process.wait() == 1
    assert " has run for 1." in process.output()
    eventually(lambda: first not in gate.waiting())
    again = spawn("-c", RUN[kind], dsn, note, "{}")
    gate.wait_for_arrival()
    gate.open()
    assert again.wait() == 0
    assert effects() == ["hangs"]


OF_TWO_QUEUES = f"""
import sys, threading
from pgqpy.consumers import Consumer

class Process(Consumer):
    queues, name, handler_timeout = ("urgent", {QUEUE!r}), "other", 0.5

    def process_event(self, event):
        threading.Event().wait()

Process(sys.argv[1]).run()
"""


def test_a_handler_that_hangs_is_named_with_the_queue_of_its_event(queue, client, dsn, spawn):
    client.create_queue("urgent")
    for each in ("urgent", QUEUE):
        client.register_consumer(each, "other", shared=True)
    (event,) = queue.insert("a")
    process = spawn("-c", OF_TWO_QUEUES, dsn)
    assert process.wait() == 1
    assert f"the handler of event {event} of queue {QUEUE} has run for" in process.output()
