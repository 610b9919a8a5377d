"""The sender of webhooks loses none and keeps their order, whatever dies or refuses."""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psutil
import pytest

from pgqpy.testing import advance
from tests.support.tree import ROOT
from tests.support.waiting import eventually

FOLDER = ROOT / "examples" / "webhooks"
EXAMPLE = runpy.run_path(str(FOLDER / "sender.py"))
CUSTOMERS, EACH = ("ann", "bob", "eve", "kim", "joe"), 20
HOLDER = """
    select holder_id, split_part(holder_name, ':', -1)::int  -- the process
      from pgq.inflight join pgq.holder on holder_id = run_holder where %s = any (run_ids)"""
LENGTH = "select pgq.queue_length('webhooks', 'sender')"
HELD = "select unnest(run_ids) from pgq.inflight where run_holder = %s and run_token > 0"


class Receiver(ThreadingHTTPServer):
    """The customers' server: `answers` has the status of the next requests, by customer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.arrived: list[tuple[str, int, int]] = []  # customer, number, id of the event
        self.answers: dict[str, list[int]] = {}
        self.waits: tuple[str, int] | None = None  # a webhook that is answered after `go`
        self.go = threading.Event()


class Answer(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        customer, number = body["customer"], body["number"]
        self.server.arrived.append((customer, number, int(self.headers["Webhook-Id"])))
        if (customer, number) == self.server.waits:
            self.server.go.wait()
        with suppress(OSError):  # the sender was killed
            self.send_response((self.server.answers.get(customer) or [204]).pop(0))
            self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def receiver(client: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    client.create_queue("webhooks")
    client.register_consumer("webhooks", "sender", shared=True, key="extra1")
    monkeypatch.setenv("no_proxy", "*")
    with Receiver() as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.go.set()
        server.shutdown()


def webhook(customer: str, number: int, port: int) -> Any:
    body, url = {"customer": customer, "number": number}, f"http://127.0.0.1:{port}/"
    return EXAMPLE["Webhook"](customer=customer, url=url, body=body)


def test_a_killed_worker_loses_nothing_and_repeats_only_what_it_had(
    client: Any, dsn: str, receiver: Receiver, spawn: Any
) -> None:
    receiver.waits = ("ann", 7)
    run = ("-m", "pgqpy", "consumer", "run", "sender:Sender", "--workers", "4")
    spawn(*run, env={"PGQPY_DSN": dsn, "PYTHONPATH": str(FOLDER)})
    query = client.connection.execute
    eventually(lambda: query("select count(*) from pgq.holder").fetchone() == (4,), 60)
    port = receiver.server_port
    ids = {
        (customer, n): client.insert(webhook(customer, n, port))
        for n in range(EACH)
        for customer in CUSTOMERS
    }
    waiting = ids["ann", 7]
    eventually(lambda: ("ann", 7, waiting) in receiver.arrived)
    holder, pid = query(HOLDER, [waiting]).fetchone()
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    held = {event for (event,) in query(HELD, [holder])}
    os.kill(pid, signal.SIGKILL)
    receiver.go.set()
    eventually(lambda: query(LENGTH).fetchone() == (0,), 60)
    times = Counter(event for _, _, event in receiver.arrived)
    assert {*times} == {*ids.values()}
    assert waiting in {event for event, count in times.items() if count > 1} <= held
    for customer in CUSTOMERS:
        numbers = dict.fromkeys(n for name, n, _ in receiver.arrived if name == customer)
        assert [*numbers] == [*range(EACH)]


def test_a_refused_webhook_is_dead_and_a_failed_one_comes_again_before_later_ones(
    client: Any, dsn: str, receiver: Receiver
) -> None:
    receiver.answers = {"ann": [503], "bob": [404, 204], "eve": [302, 204]}
    for number in (1, 2):
        for customer in ("ann", "bob", "eve"):
            client.insert(webhook(customer, number, receiver.server_port))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        client.insert(webhook("kim", 1, closed.getsockname()[1]))
        sender = EXAMPLE["Sender"](dsn)
        assert sender.drain() == (2, 2, 2)  # handled, retried, dead
        assert [n for name, n, _ in receiver.arrived if name == "ann"] == [1]
        advance(dsn, hours=1)
        assert sender.drain() == (2, 1, 0)
    assert [n for name, n, _ in receiver.arrived if name == "ann"] == [1, 1, 2]
