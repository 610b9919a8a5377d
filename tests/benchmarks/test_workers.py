"""The case of workers sees what is lost and what comes twice."""

from __future__ import annotations

import pytest

import pgqpy
from benchmarks.cases import parking, workers
from benchmarks.figures import Wrong


@pytest.fixture
def queue(dsn, client):
    client.create_queue(workers.QUEUE)
    return dsn


def test_workers_that_share_and_claims_are_counted(queue):
    assert workers.handle(queue, [20], workers=2) > 0
    assert workers.handle(queue, [1] * 3, workers=0) > 0
    assert workers.handle(queue, [20], workers=2, lanes=3) > 0
    assert workers.claims(queue, 2, 5) > 0


@pytest.mark.parametrize("hot", [False, True])
def test_events_of_other_keys_than_the_parked_one_are_counted(queue, hot):
    assert parking.handle(queue, 20, hot=hot, wait=0.0) > 0


def test_a_wrong_sum_is_wrong(queue, monkeypatch):
    insert = workers.insert

    def lossy(client: pgqpy.Client, sizes: list[int]) -> int:
        return insert(client, sizes) + 1

    monkeypatch.setattr(workers, "insert", lossy)
    with pytest.raises(Wrong, match="sum of their numbers"):
        workers.handle(queue, [2], workers=0)
