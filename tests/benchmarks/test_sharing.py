"""The case of sharing sees what is lost and what comes twice."""

from __future__ import annotations

import pytest

from benchmarks.cases import sharing
from benchmarks.figures import Wrong


@pytest.fixture
def queue(client, dsn):
    """A database with the queue of the case."""
    client.create_queue(sharing.QUEUE)
    return dsn


def test_events_of_processes_are_counted(queue):
    assert sharing.handle(queue, 2, 20) > 0
    assert sharing.takeover(queue) > 0


def test_what_is_lost_is_noticed(queue, monkeypatch):
    monkeypatch.setattr(sharing, "wait_for_events", lambda *_: [[39, 741, 1, 2], [0, 0, 0, 0]])
    with pytest.raises(Wrong):
        sharing.handle(queue, 2, 20)
