"""G8: a consumer's memory depends on its fetch size, never on the batch."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import pytest

import pgqpy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EVENTS = 1_500
FETCH_SIZE = 50
OCTETS = 10_000  # of each event: 15 MB together


@pytest.fixture
def filled(client: pgqpy.Client) -> pgqpy.Client:
    """A queue `q` with one large batch for the consumer `c`."""
    client.create_queue("q")
    client.register_consumer("q", "c")
    client.insert_events("q", (("t", f"{number:0{OCTETS}}") for number in range(EVENTS)))
    client.tick_queue("q")
    return client


@contextmanager
def _traced(client: pgqpy.Client, path: Path) -> Iterator[None]:
    """Let libpq write down every message of the protocol."""
    with path.open("wb") as file:
        client.connection.pgconn.trace(file.fileno())
        try:
            yield
        finally:
            client.connection.pgconn.untrace()


def _rows_per_answer(path: Path) -> list[int]:
    """Return how many rows each answer of the server brought."""
    answers = [0]
    with path.open(errors="replace") as lines:
        for line in lines:
            if "\tDataRow\t" in line[:60]:
                answers[-1] += 1
            elif "\tCommandComplete\t" in line[:60]:
                answers.append(0)
    return answers


@pytest.mark.parametrize("in_transaction", [True, False])
def test_large_batch_comes_by_fetches(
    filled: pgqpy.Client, tmp_path: Path, *, in_transaction: bool
) -> None:
    trace = tmp_path / "trace"
    transaction = filled.transaction() if in_transaction else nullcontext()
    with transaction, _traced(filled, trace):
        batch = filled.next_batch("q", "c")
        assert batch is not None
        count = sum(1 for _ in filled.get_batch_events(batch, fetch_size=FETCH_SIZE))
    answers = _rows_per_answer(trace)
    assert count == EVENTS
    assert max(answers) <= FETCH_SIZE + 1
    assert sum(answers) >= EVENTS


@pytest.mark.parametrize("lie", [0, 1])
def test_large_batch_comes_by_fetches_though_its_tick_promised_few(
    filled: pgqpy.Client, tmp_path: Path, lie: int
) -> None:
    batch = filled.next_batch("q", "c")
    assert batch is not None
    batch = batch._replace(event_seq=lie, prev_event_seq=0)
    with _traced(filled, tmp_path / "trace"):
        count = sum(1 for _ in filled.get_batch_events(batch, fetch_size=FETCH_SIZE))
    assert count == EVENTS
    assert max(_rows_per_answer(tmp_path / "trace")) <= FETCH_SIZE + 1


def test_load_of_any_length_passes_through_a_small_buffer(client: pgqpy.Client) -> None:
    client.create_queue("q")
    tracemalloc.start()
    try:
        client.insert_events("q", (("t", f"{number:0{OCTETS}}") for number in range(EVENTS)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < EVENTS * OCTETS / 5
