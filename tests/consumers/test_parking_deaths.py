"""A consumer that parks and dies before any statement: nothing is lost, or out of order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqpy.consumers import crash
from pgqpy.consumers._sync.handler_connection import HandlerConnection
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, Maker
from tests.consumers.keyed import insert_keyed, parked
from tests.support.waiting import eventually

PARK = {"on_error": "park", "key": "extra1", "backoff": (0.0, 3600.0)}
KILLERS = str(Path(__file__).with_name("killers.py"))
LATE = "fails, then kills"
FAILS = 2  # times, of the first and the third event of each key


class Deaths:
    """A consumer whose statements are counted, and which dies before one of them.

    Dying means here: the connection ends, and nothing more is sent.
    """

    def __init__(self, dsn, connection, settings):
        self.connection = connection
        self.maker = Maker(dsn, asynchronous=False)
        self.settings = PARK | settings
        self.left: Iterator[int] = iter(())
        self.attempts: Counter[str] = Counter()

    def start(self):
        handler = self.in_transaction if self.settings["transactional"] else self.alone
        return self.maker.start(handler, **self.settings)

    def in_transaction(self, event):
        self.attempts[event.data] += 1
        if self.attempts[event.data] <= FAILS and event.data.endswith(("1", "3")):
            raise ValueError(event.data)
        yield NOTE, [event.data]

    def alone(self, event):
        for statement in self.in_transaction(event):
            self.connection.execute(*statement)

    def die_before(self, number):
        self.left = iter(range(number, -1, -1))
        with pytest.raises(SystemExit):
            self.start().join()
        self.left = iter(())
        # As if the run had ended in order: the next one handles whole batches.
        self.connection.execute("update pgq.position set pos_holder = null, pos_part = null")


@pytest.fixture
def deaths(request, dsn, connection, monkeypatch):
    """The consumer, with the settings of the test."""
    found = Deaths(dsn, connection, request.param)
    original = HandlerConnection.wait

    def wait(self, gen, *args, **kwargs):
        if next(found.left, None) == 0:
            self.pgconn.finish()
            raise SystemExit("dead")
        return original(self, gen, *args, **kwargs)

    monkeypatch.setattr(HandlerConnection, "wait", wait)
    monkeypatch.setattr(crash, "MAX_ATTEMPTS", 99)
    yield found
    found.maker.close()


KINDS = {
    "plain": {"transactional": False, "part_size": 2},
    "concurrency": {"transactional": False, "concurrency": 3},
    "transactional": {"transactional": True, "part_size": 2},
}


DENSE = ("transactional",)  # die before every statement, the others before each third
CELLS = [
    pytest.param(KINDS[kind], range(first, 45, 3), id=f"{kind} {first}")
    for kind in KINDS
    for first in (range(3) if kind in DENSE else [0])
]


@pytest.mark.parametrize(("deaths", "numbers"), CELLS, indirect=["deaths"])
def test_death_before_any_statement_keeps_order_and_effects(queue, effects, deaths, numbers):
    expected = []
    for number in numbers:
        datas = [f"{key}{number:02}-{n}" for n in range(1, 5) for key in "ab"]
        insert_keyed(queue, *datas)
        expected += datas
        deaths.die_before(number)
    last = deaths.start()
    queue.wait_until_finished()
    eventually(lambda: parked(queue) == [] and set(effects()) == set(expected))
    queue.wait_until_finished()
    last.stop()
    found = effects()
    if deaths.settings["transactional"]:
        assert sorted(found) == sorted(expected)
    begun = dict.fromkeys(found)  # in the order of their first effects
    keys: dict[str, list[str]] = {}
    for data in begun:
        keys.setdefault(data.partition("-")[0], []).append(data[-1])
    assert {"".join(each) for each in keys.values()} == {"1234"}


@pytest.mark.parametrize("shape", ["parked", "parked, concurrency", "parked, transactional"])
def test_parked_event_that_kills_its_process_is_dead_at_last_and_frees_its_key(
    queue, client, spawn, dsn, effects, shape
):
    for data, key in [("a", "k"), (LATE, "k"), ("b", "k"), ("x", "other"), ("c", "k")]:
        client.insert_event(QUEUE, "test", data, extra1=key)
    client.insert_event(QUEUE, "test", "end", extra1="k")
    queue.tick()
    process = spawn(KILLERS, dsn, shape)
    assert process.wait(120) == 0
    (ends,) = (
        line.split()[1:] for line in process.output().splitlines() if line.startswith("ends: ")
    )
    assert ends == [*["-9"] * (len(ends) - 1), "0"]
    assert 4 <= len(ends) - 1 <= 6
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert (dead.ev_data, dead.dead_error.rpartition(".")[2]) == (LATE, "ProcessDied")
    found = list(dict.fromkeys(effects()))
    found.remove("x")
    assert found == ["a", "b", "c", "end"]
    assert parked(queue) == []
