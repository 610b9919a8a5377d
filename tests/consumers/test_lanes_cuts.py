"""Crashes of runs with lanes: sessions that were cut live, and lanes that end meanwhile."""

from __future__ import annotations

import os

import pytest

from pgqpy import calls
from pgqpy.calls import consume
from pgqpy.consumers import crash
from tests.consumers.harness import CONSUMER, QUEUE, patched
from tests.consumers.lanes import LANES
from tests.consumers.test_cut_sessions import COUNT, COUNTED, HERE, HOST, LONG, SHAPES, WAITS
from tests.consumers.workers import taken
from tests.support.waiting import eventually

TAKE = "select batch_id from pgq.take_lane(%s, %s, %s)"
DIED = "select exists (select from pgq.current_position where %s = any (pos_died))"


@pytest.fixture
def call(connection):
    """Let a run without a process of its own call take_lane."""
    return lambda token: connection.execute(TAKE, [QUEUE, CONSUMER, token]).fetchone()[0]


@pytest.fixture
def start(make, queue, client, connection, call, monkeypatch):
    """Let runs lose their sessions at the first event, and start another; return what it handles.

    It gives up after the first end at one event.
    """
    monkeypatch.setattr(crash, "POLL_INTERVAL", 0.01)

    def starter(*tokens, grace=LONG, **settings):
        monkeypatch.setattr(crash, "MAX_ATTEMPTS", 4)
        monkeypatch.setattr(crash, "GRACE", grace)
        client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 1, "extra1"))
        queue.insert("a", "b", "c")
        assert call(tokens[0]) is not None
        connection.execute(COUNT, [len(tokens[1:]) or None, list(tokens[1:])])
        seen = []

        def handler(event):
            seen.append(event.data)
            return ()

        make.start(handler, **LANES | {"lanes": 1}, **settings)
        return seen

    return starter


@pytest.mark.parametrize("settings", SHAPES)
def test_an_event_where_two_live_runs_lost_their_sessions_is_handled(
    start, call, connection, client, log, settings
):
    tokens = [f"{HOST}:{os.getpid()}:{HERE}", "elsewhere:1:y"]
    seen = start(*tokens, **settings)
    eventually(lambda: WAITS in log.text)
    assert connection.execute(COUNTED).fetchone() == (2,)

    def comes_back(token):
        assert call(token) is None
        return connection.execute(DIED, [token]).fetchone() == (False,)

    eventually(lambda: comes_back(tokens[1]))
    assert connection.execute(COUNTED).fetchone() == (1,)
    assert seen == []
    eventually(lambda: comes_back(tokens[0]))
    eventually(lambda: seen == ["a", "b", "c"] and not taken(connection))
    assert client.get_dead_events(QUEUE, CONSUMER) == []


def test_a_lane_that_ends_while_its_parts_are_widened_ends_no_run(
    make, queue, client, connection, call, monkeypatch
):
    client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 1, "extra1"))
    queue.insert("a")
    assert call("elsewhere:1:x") is not None
    connection.execute("update pgq.position set pos_part = 30 where pos_batch > 0")
    widen, seen = consume.widen_run, []
    ended: list[int] = []

    def widen_late(*names):
        if not ended:
            ended.append(client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 2, "extra1")))
            call("elsewhere:2:y")  # it removes the old lane
        return widen(*names)

    def handler(event):
        seen.append(event.data)
        return ()

    monkeypatch.setattr(consume, "widen_run", widen_late)
    with patched("careful.QUIET_PARTS", 1):
        make.start(handler, **LANES | {"lanes": 1}, transactional=True)
        eventually(lambda: ended == [1])
        queue.insert("b")
        eventually(lambda: seen == ["a", "b"] and not taken(connection))
