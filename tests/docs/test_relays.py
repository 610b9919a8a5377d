"""The relay to Redis adds each event once, in order, whatever is killed in between."""

from __future__ import annotations

import random
import secrets
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests.support.redis_server import REDIS, WHY_SKIPPED, RedisServer
from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pgqpy
    from tests.support.processes import PythonProcess

pytestmark = pytest.mark.skipif(REDIS is None, reason=WHY_SKIPPED)

COMMAND = ("-m", "pgqpy", "consumer", "run", "redis_streams:Relay")
EVENTS = 8000  # of a batch: some transactions of Redis
TEXT = "x" * 500


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[RedisServer]:
    with closing(RedisServer(tmp_path)) as server:
        yield server


@pytest.fixture
def relay(
    client: pgqpy.Client,
    dsn: str,
    stream: RedisServer,
    spawn: Callable[..., PythonProcess],
) -> Callable[[], PythonProcess]:
    """Start the example as it stands, for a queue whose events it gets from the first on."""
    client.create_queue("orders")
    client.register_consumer("orders", "redis")
    folder = str(ROOT / "examples" / "relays")
    env = {"PGQPY_DSN": dsn, "REDIS_URL": stream.url, "PYTHONPATH": folder}
    return lambda: spawn(*COMMAND, env=env)


def insert(client: pgqpy.Client, first: int, last: int) -> None:
    """Insert events with these numbers, and tick."""
    events = ({"type": "n", "data": TEXT, "extra1": str(n)} for n in range(first, last + 1))
    client.insert_events("orders", events)
    client.tick_queue("orders")


def relayed(stream: RedisServer) -> list[int]:
    """Return the numbers of the events in the stream, in its order."""
    entries: Any = stream.client.xrange("orders")
    return [int(fields["extra1"]) for _, fields in entries]


def wait_for_entries(stream: RedisServer, number: int) -> None:
    eventually(lambda: stream.client.xlen("orders") >= number)


def caught_up(client: pgqpy.Client) -> bool:
    (info,) = client.get_consumer_info("orders", "redis")
    return info.pending_events == 0


def test_an_event_becomes_an_entry_with_what_it_has(
    client: pgqpy.Client, stream: RedisServer, relay: Callable[[], PythonProcess]
) -> None:
    event = client.insert_event("orders", "placed", "data", extra2="")
    tick = client.tick_queue("orders")
    relay()
    eventually(lambda: caught_up(client))
    entries: Any = stream.client.xrange("orders")
    ((place, fields),) = entries
    assert tick is not None
    assert place == f"{tick.tick_id}-{event}"
    assert fields.pop("time").endswith("+00:00")
    assert fields == {"type": "placed", "data": "data", "extra2": ""}


@pytest.mark.parametrize("killed", ["relay", "redis"])
def test_sigkill_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    client: pgqpy.Client, stream: RedisServer, relay: Callable[[], PythonProcess], killed: str
) -> None:
    full = int(stream.client.info("memory")["used_memory"]) + EVENTS * len(TEXT) // 2
    stream.client.config_set("maxmemory", full)
    insert(client, 1, EVENTS)
    process = relay()
    process.wait_for_output("stays unfinished")
    middle = relayed(stream)
    assert 0 < len(middle) < EVENTS
    if killed == "relay":
        process.kill()
        stream.client.config_set("maxmemory", 0)
        relay()
    else:
        stream.kill()
        stream.start()
    eventually(lambda: caught_up(client))
    assert relayed(stream) == [*range(1, EVENTS + 1)]


def test_kills_at_any_moment_lose_and_double_nothing(
    client: pgqpy.Client, stream: RedisServer, relay: Callable[[], PythonProcess]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")  # noqa: T201  # shown where the test fails
    choose = random.Random(seed)
    last, process = 0, relay()
    for _ in range(6):
        insert(client, last + 1, last + EVENTS)
        last += EVENTS
        wait_for_entries(stream, last - choose.randint(0, EVENTS))
        if choose.random() < 0.5:
            process.kill()
            process = relay()
        else:
            stream.kill()
            stream.start()
    eventually(lambda: caught_up(client))
    assert relayed(stream) == [*range(1, last + 1)]


def test_a_stream_that_is_ahead_of_its_queue_is_refused_and_nothing_is_left_out(
    client: pgqpy.Client, stream: RedisServer, relay: Callable[[], PythonProcess]
) -> None:
    stream.client.xadd("orders", {"extra1": "1"}, id="1000000-1")
    insert(client, 2, 3)
    relay().wait_for_output("the stream is at tick 1000000")
    assert not caught_up(client)
    assert relayed(stream) == [1]


def test_redis_refuses_what_a_process_adds_late(stream: RedisServer) -> None:
    stream.client.xadd("orders", {"extra1": "1"}, id="7-2")
    for late in ("7-2", "7-1", "6-9"):
        with pytest.raises(redis.exceptions.ResponseError):
            stream.client.xadd("orders", {"extra1": "2"}, id=late)
    assert relayed(stream) == [1]
