"""Workers whose sessions were cut live: what they had counts against no event."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from pgqpy.consumers import Consumer, crash
from tests.consumers.harness import CONSUMER, END, QUEUE, in_transactions, private
from tests.consumers.workers import taken
from tests.support.waiting import eventually

SHAPES = [{}, {"transactional": True}]
HOST = crash.new_holder().rpartition(":")[0].rpartition(":")[0]
HERE = crash.new_holder().rpartition(":")[2]
COUNT = "update pgq.position set pos_part = 1, pos_tries = %s, pos_died = %s where pos_batch > 0"
COUNTED = "select pos_tries from pgq.current_position where pos_batch > 0"
WAITS = "may have lost its connection only"
LONG = 3600  # seconds
KINDS = [
    {},
    {"shared": True},
    {"lanes": 1, "key": "extra1"},
    {"concurrency": 2},
    {"transactional": True},
    {"transactional": True, "shared": True},
]


@pytest.fixture
def call(connection):
    """Let a run without a process of its own call take_part."""

    def take(worker, token):
        values = [QUEUE, CONSUMER, worker]
        connection.execute("select pgq.register_subconsumer(%s, %s, %s)", values)
        call = "select batch_id from pgq.take_part(%s, %s, %s, %s)"
        return connection.execute(call, [*values, token]).fetchone()[0]

    return take


@pytest.fixture
def come_back(connection, call):
    """Let a run show itself until that is seen: a range that is touched just now is left."""
    died = "select exists (select from pgq.current_position where %s = any (pos_died))"

    def shows(worker, token):
        assert call(worker, token) is None
        return connection.execute(died, [token]).fetchone() == (False,)

    return lambda worker, token: eventually(lambda: shows(worker, token))


@pytest.fixture
def cut(queue, connection, call):
    """Let a worker lose its session at the first event, where others may have lost theirs."""

    def lose(token, *before):
        queue.insert("a", "b", "c")
        assert call("x", token) is not None
        connection.execute(COUNT, [len(before) or None, list(before)])

    return lose


@pytest.fixture
def start(make, monkeypatch):
    """Start a worker that gives up after the first end at one event; return what it handles."""
    monkeypatch.setattr(crash, "GRACE", LONG)
    monkeypatch.setattr(crash, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(crash, "MAX_ATTEMPTS", 4)

    def run(**settings):
        seen = []

        def handler(event):
            seen.append(event.data)
            return ()

        return make.start(handler, shared=True, **settings), seen

    return run


@pytest.mark.parametrize("settings", SHAPES)
def test_an_event_where_two_live_workers_lost_their_sessions_is_handled(
    start, cut, come_back, connection, client, log, settings
):
    tokens = [f"{HOST}:{os.getpid()}:{HERE}", "elsewhere:1:y"]
    cut(*tokens)
    _, seen = start(**settings)
    eventually(lambda: WAITS in log.text)
    assert connection.execute(COUNTED).fetchone() == (2,)
    come_back("y", tokens[1])
    assert connection.execute(COUNTED).fetchone() == (1,)
    assert seen == []
    come_back("x", tokens[0])
    eventually(lambda: seen == ["a", "b", "c"] and not taken(connection))
    assert client.get_dead_events(QUEUE, CONSUMER) == []


@pytest.mark.parametrize("settings", SHAPES)
def test_an_event_whose_worker_stays_away_is_dead_at_last(
    start, cut, connection, client, log, monkeypatch, settings
):
    cut("elsewhere:1:x")
    monkeypatch.setattr(crash, "GRACE", 0.1)
    _, seen = start(**settings)
    eventually(lambda: seen == ["b", "c"] and not taken(connection))
    assert [event.ev_data for event in client.get_dead_events(QUEUE, CONSUMER)] == ["a"]
    assert WAITS in log.text


@pytest.mark.parametrize("settings", SHAPES)
def test_an_event_that_killed_a_process_of_this_host_is_dead_at_once(
    start, cut, connection, client, log, settings
):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    cut(f"{HOST}:{process.pid}:{HERE}")
    _, seen = start(**settings)
    eventually(lambda: seen == ["b", "c"] and not taken(connection))
    assert [event.ev_data for event in client.get_dead_events(QUEUE, CONSUMER)] == ["a"]
    assert WAITS not in log.text


@pytest.mark.parametrize("settings", SHAPES)
def test_stop_ends_the_wait_and_leaves_the_event(start, cut, connection, client, log, settings):
    cut("elsewhere:1:x")
    running, seen = start(**settings)
    eventually(lambda: WAITS in log.text)
    running.stop()
    assert seen == []
    assert client.get_dead_events(QUEUE, CONSUMER) == []
    assert connection.execute(COUNTED).fetchone() == (1,)


@pytest.mark.parametrize("settings", SHAPES)
def test_a_batch_that_is_lost_in_the_wait_is_left(start, cut, connection, client, log, settings):
    cut("elsewhere:1:x")
    _, seen = start(**settings)
    eventually(lambda: WAITS in log.text)
    connection.execute("select pgq.finish_batch(%s)", taken(connection))
    eventually(lambda: "is not ours any more" in log.text)
    assert seen == []
    assert client.get_dead_events(QUEUE, CONSUMER) == []


@pytest.mark.parametrize(
    ("token", "gone"),
    [
        (f"{HOST}:{os.getpid()}:{HERE}", False),
        (f"{HOST}:{1 << 40}:{HERE}", True),
        (f"{HOST}:1:{HERE}", False),
        (f"{HOST}:{1 << 40}:00000000.4026531836.x", False),
        (f"{HOST}:{1 << 40}:x", False),
        ("elsewhere:99999999:x", False),
        (f"{HOST}:x", False),
        ("dead", False),
    ],
    ids=[
        "itself",
        "ended",
        "of another user, perhaps",
        "in another container",
        "of an unknown place",
        "elsewhere",
        "no process",
        "no token",
    ],
)
def test_only_a_process_of_this_host_is_known_to_have_ended(token, gone):
    assert crash.is_gone(token) is gone


class Cut:
    """Handles events. The first one cuts the session; it and those beside it see that noticed."""

    def __init__(self, connection):
        self.handled = []
        self.held = None
        self._connection = connection

    def handle(self, consumer, event):
        self.handled.append(event.data)
        held = self.held = self.held or private(consumer, "loop").held
        if held is private(consumer, "loop").held:
            if event.data == "a":
                self._connection.execute(END)
            eventually(lambda: held.must_check)
        return ()


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_no_event_begins_without_its_session(queue, make, connection, settings):
    """Another process may have the batch at once."""
    cut = Cut(connection)
    queue.insert(*"abcd")
    consumer: Any = make.consumer(lambda event: cut.handle(consumer, event), **settings)
    make.run(consumer)
    queue.wait_until_finished()
    assert cut.handled.count("d") == 1
    assert set(cut.handled) == set("abcd")


@pytest.mark.parametrize("settings", [*KINDS[:3], *KINDS[4:]], ids=str)
def test_process_batch_reads_no_event_without_its_session(
    queue, dsn, make_sync, connection, settings
):
    cut = Cut(connection)

    class InThread(Consumer):
        def process_batch(self, batch, *_connection):
            for event in batch:
                cut.handle(self, event)

    queue.insert(*"abcd")
    kind = in_transactions(InThread, settings.get("transactional", False))
    settings = {key: value for key, value in settings.items() if key != "transactional"}
    make_sync.run(type("Cut", (kind,), {"queue": QUEUE, "name": CONSUMER, **settings})(dsn))
    queue.wait_until_finished()
    assert cut.handled == list("aabcd")


def test_notifications_are_read_between_two_events(queue, make, connection):
    """Else they fill the connection's buffers, and the end of the session does not arrive."""
    unread = []

    def handler(event):
        held = private(consumer, "loop").held
        if event.data == "a":
            connection.execute("notify pgq_orders")
            eventually(lambda: held.must_check)
        unread.append(held.must_check)

    queue.insert("a", "b")
    consumer: Any = make.consumer(handler)
    make.run(consumer)
    queue.wait_until_finished()
    assert unread == [True, False]
