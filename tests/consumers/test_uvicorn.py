"""A consumer in the lifespan of a web server: both stop in order at one signal."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.consumers.harness import NOTE
from tests.support.waiting import eventually

APP = """
import asyncio, logging, os, sys
from contextlib import asynccontextmanager
import psycopg
from pgqpy.consumers import AsyncConsumer

logging.basicConfig(stream=sys.stdout, level=logging.INFO)

class Billing(AsyncConsumer):
    queue, name = "orders", "billing"

    async def process_event(self, event):
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as other:
            await other.execute({wait!r})
            await other.execute({note!r}, [event.data])

@asynccontextmanager
async def lifespan(app):
    consumer = Billing(os.environ["PGQPY_DSN"])
    {lifespan}

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    async with lifespan(app):
        await send({{"type": "lifespan.startup.complete"}})
        await receive()
    await send({{"type": "lifespan.shutdown.complete"}})
"""
RUNNING = """
    async with consumer.running():
        yield"""
TASK = """
    task = asyncio.create_task(consumer.run())
    yield
    consumer.stop()
    await task"""


@pytest.fixture
def serve(spawn, gate, dsn, effects, tmp_path):
    """Start uvicorn; return its process, and a function that says whether it takes requests."""

    def start(lifespan, *args):
        app = APP.format(wait=gate.wait_sql, note=NOTE, lifespan=lifespan.strip())
        (tmp_path / "app.py").write_text(app, encoding="utf-8")
        place = ("--app-dir", str(tmp_path), "--uds", str(tmp_path / "web"))
        process = spawn("-m", "uvicorn", "app:app", *place, *args, env={"PGQPY_DSN": dsn})

        def listens():
            with socket.socket(socket.AF_UNIX) as client:
                return not client.connect_ex(str(tmp_path / "web"))

        eventually(listens)
        process.wait_for_output("consumer billing of queue orders runs")
        return process, listens

    return start


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_stops_the_server_first_and_then_the_consumer(
    queue, effects, gate, serve, number
):
    process, listens = serve(RUNNING)
    queue.insert("a")
    gate.wait_for_arrival()
    process.signal(number)
    eventually(lambda: not listens())
    gate.open()
    assert process.wait() in {0, -number}  # uvicorn sends it to itself once more
    assert effects() == ["a"]
    assert queue.pending() == 0
    order = ["Shutting down", "consumer billing of queue orders stops", "shutdown complete"]
    places = [process.output().index(text) for text in order]
    assert places == sorted(places)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_in_a_task_hands_the_signal_on(queue, gate, serve, number):
    gate.open()
    process, _ = serve(TASK)
    process.signal(number)
    assert process.wait() in {0, -number}
    assert "shutdown complete" in process.output()


def test_second_signal_does_not_wait_for_the_handler(queue, effects, gate, serve):
    process, listens = serve(RUNNING)
    queue.insert("a")
    gate.wait_for_arrival()
    process.signal(signal.SIGINT)
    eventually(lambda: not listens())
    process.signal(signal.SIGINT)
    process.wait()
    assert effects() == []
    assert queue.open_batch() is not None


def test_consumer_of_a_second_worker_is_a_standby(queue, effects, gate, serve):
    gate.open()
    process, _ = serve(RUNNING, "--workers", "2")
    process.wait_for_output("waits as a standby")
    queue.deliver("a")
    assert effects() == ["a"]
    process.terminate()
    assert process.output().count("shutdown complete") == 2
