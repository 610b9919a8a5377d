"""Consumers as processes of their own: signals, SIGKILL, forks."""

from __future__ import annotations

import signal
import textwrap

import pytest

from tests.consumers.harness import CONSUMER, QUEUE
from tests.support.gates import shut_gate

SYNC = """
import os, sys, threading
import psycopg
from pgqpy.consumers import Consumer

class Process(Consumer):
    queue, name = {queue!r}, {name!r}
    {attributes}

    def process_{kind}(self, {arguments}):
        other = psycopg.connect(sys.argv[1], autocommit=True)
        with other:
{body}

consumer = Process(sys.argv[1])
{run}
print("run() has returned", flush=True)
"""


def program(body, *, kind="event", transactional=False, attributes="", run="consumer.run()"):
    arguments = kind + (", connection" if transactional else "")
    lines = f"is_transactional = {transactional}; {attributes}"
    return SYNC.format(
        queue=QUEUE,
        name=CONSUMER,
        attributes=lines,
        kind=kind,
        arguments=arguments,
        body=textwrap.indent(textwrap.dedent(body), " " * 12),
        run=run,
    )


@pytest.fixture(params=["threads", "asyncio"])
def start(request, spawn, dsn):
    """Start a process whose handler runs these lines; `do(sql)` runs a statement elsewhere."""

    def starter(body, **options):
        code = program(body, **options)
        if request.param == "asyncio":
            code = asynchronous(code)
        return spawn("-c", code, dsn)

    return starter


def asynchronous(code):
    """Turn the program into one for asyncio: the handler itself may block."""
    changes = [
        ("import Consumer", "import AsyncConsumer as Consumer"),
        ("    def process_", "    async def process_"),
        ("connection.execute", "await connection.execute"),
        ("for event in batch", "async for event in batch"),
        ("consumer.run()", "__import__('asyncio').run(consumer.run())"),
    ]
    for old, new in changes:
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_the_event_end_and_leaves_the_batch_unfinished(
    queue, start, connection, connect, number
):
    connection.execute("create table seen (data text)")
    with shut_gate(connect()) as gate:
        process = start(f"""
            other.execute({gate.wait_sql!r})
            other.execute("insert into seen values (%s)", [event.data])
        """)
        queue.insert("a", "b")
        gate.wait_for_arrival()
        process.signal(number)
        gate.open()
        assert process.wait() == 0
    assert "run() has returned" in process.output()
    assert connection.execute("select data from seen").fetchall() == [("a",)]
    assert queue.open_batch() is not None


LOGGED = "import logging; logging.basicConfig(level=logging.INFO); consumer.run()"


@pytest.mark.parametrize(("kind", "first"), [("event", signal.SIGTERM), ("batch", signal.SIGINT)])
def test_a_second_signal_of_any_kind_stops_now_as_the_line_at_the_first_says(
    queue, start, connect, kind, first
):
    with shut_gate(connect()) as gate:
        process = start(f"other.execute({gate.wait_sql!r})", kind=kind, run=LOGGED)
        (event_id,) = queue.insert("a")
        gate.wait_for_arrival()
        at_hand = f"event {event_id}" if kind == "event" else f"batch {queue.open_batch()}"
        process.signal(first)
        process.wait_for_output(f"finishing {at_hand}; again to stop now")
        process.signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    assert queue.open_batch() is not None


def test_a_process_batch_ends_before_a_signal_does(queue, start, connect):
    with shut_gate(connect()) as gate:
        process = start(
            f"""
            for event in batch:
                other.execute({gate.wait_sql!r})
            """,
            kind="batch",
        )
        queue.insert("a", "b")
        gate.wait_for_arrival()
        process.signal(signal.SIGTERM)
        gate.open()
        assert process.wait() == 0
    assert queue.open_batch() is None


def test_sighup_that_is_ignored_stays_ignored(queue, start):
    """As under nohup."""
    run = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
consumer.run()
"""
    process = start("print(event.data, flush=True)", run=run)
    queue.insert("a")
    process.wait_for_output("a")
    process.signal(signal.SIGHUP)
    queue.insert("still here")
    process.wait_for_output("still here")
    assert process.terminate() == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_a_forked_child_is_refused_and_the_parent_goes_on(queue, start, connection, transactional):
    connection.execute("create table effect (data text)")
    writer = "connection" if transactional else "other"
    run = """
try:
    consumer.run()
except RuntimeError as error:
    print(f"refused: {error}", flush=True)
    os._exit(0)
"""
    process = start(
        f"""
        {writer}.execute("insert into effect values (%s)", [event.data])
        if event.data == "a" and os.fork() == 0:
            return
        """.replace("with other:", ""),
        transactional=transactional,
        run=run,
    )
    queue.insert("a", "b")
    queue.insert("c")
    process.wait_for_output("refused: this process was forked")
    queue.wait_until_finished()
    assert [row[0] for row in connection.execute("select data from effect")] == ["a", "b", "c"]
    assert process.terminate() == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_a_child_of_a_handler_ends_by_the_signal_that_its_parent_sends(queue, start, transactional):
    """Pool sends SIGTERM to its children and waits for them; so does Process.terminate()."""
    queue.insert("a")
    body = """
        import multiprocessing
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=threading.Event().wait)
        child.start(); child.terminate(); child.join()
        with fork.Pool(1) as pool:
            print(f"the pool returned {pool.map(abs, [-7])}", flush=True)
        print(f"the child ended with {child.exitcode}", flush=True)
    """
    process = start(body, transactional=transactional)
    process.wait_for_output("the pool returned [7]")
    process.wait_for_output(f"the child ended with {-signal.SIGTERM}")
    queue.wait_until_finished()


def test_a_consumer_made_before_a_fork_runs_in_the_child(queue, start, connection):
    connection.execute("create table effect (data text)")
    run = """
pid = os.fork()
if pid == 0:
    consumer.run()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    process = start(
        """
        other.execute("insert into effect values (%s)", [event.data])
        self.stop()
        """,
        run=run,
    )
    queue.insert("a")
    assert process.wait() == 0
    assert "7" in process.output()
    assert connection.execute("select data from effect").fetchall() == [("a",)]
