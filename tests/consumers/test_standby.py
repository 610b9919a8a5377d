"""A second process of a consumer waits as a standby, and takes over when the first one ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pgqpy.errors import ConsumerNotFound, ConsumerRunning
from tests.consumers.harness import CONSUMER, QUEUE, SESSIONS, private, short_grace
from tests.support.waiting import eventually

STANDBY = f"consumer {CONSUMER} of queue {QUEUE} waits as a standby: pgqpy consumer {CONSUMER}"
ASKED = f"select max(query_start) from pg_stat_activity where pid in ({SESSIONS})"
OPEN = f"{SESSIONS} and (state <> 'idle' or xact_start is not null)"

LIVING = """
import sys, time
from pgqpy.consumers import Consumer, TransactionalConsumer

class Living({base}):
    queue, name = "orders", "billing"

    def process_event(self, event, *connection):
        print("handling", flush=True)
        time.sleep(600)

Living(sys.argv[1]).run()
"""


@pytest.fixture(autouse=True)
def grace():
    with short_grace():
        yield


def test_a_standby_says_so_once_and_takes_over_at_a_stop(queue, make, log, connection):
    seen: list[Any] = []
    first = make.start(lambda event: seen.append(("first", event.data)))
    queue.deliver("a")
    second = make.start(lambda event: seen.append(("second", event.data)))
    eventually(lambda: STANDBY in log.text)
    polls: set[Any] = set()

    def has_polled():
        polls.add(connection.execute(ASKED).fetchone()[0])
        return len(polls) > 3

    eventually(has_polled)
    assert log.text.count("waits as a standby") == 1
    assert second.consumer.outage() is None
    assert connection.execute(OPEN).fetchall() == []
    first.stop()
    stopped = time.monotonic()
    queue.deliver("b")
    assert time.monotonic() - stopped < 2
    assert seen == [("first", "a"), ("second", "b")]


@pytest.mark.parametrize("base", ["Consumer", "TransactionalConsumer"])
def test_a_standby_takes_over_from_a_process_that_is_killed(queue, make, spawn, dsn, log, base):
    first = spawn("-c", LIVING.format(base=base), dsn)
    queue.insert("a")
    first.wait_for_output("handling")
    seen: list[Any] = []
    transactional = base != "Consumer"

    def note(event):
        seen.append(event.data)
        return ()

    make.start(note, transactional=transactional)
    eventually(lambda: STANDBY in log.text)
    first.kill()
    killed = time.monotonic()
    queue.wait_until_finished()
    assert time.monotonic() - killed < 2
    assert seen == ["a"]


def test_a_standby_stops_at_once(queue, make, log):
    make.start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    second = make.start(lambda event: None)
    eventually(lambda: "waits as a standby" in log.text)
    began = time.monotonic()
    second.stop()
    assert time.monotonic() - began < 0.4


def test_who_does_not_want_to_wait_gets_the_error(queue, make, log):
    make.start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    with pytest.raises(ConsumerRunning, match="runs already"):
        make.start(lambda event: None, wait=False).join()


def test_a_standby_of_a_consumer_that_is_unregistered_ends(queue, client, make, log):
    first = make.start(lambda event: None)
    eventually(lambda: private(first.consumer, "worked"))
    second = make.start(lambda event: None)
    eventually(lambda: "waits as a standby" in log.text)
    client.unregister_consumer(QUEUE, CONSUMER)
    with pytest.raises(ConsumerNotFound):
        second.join()


def test_a_standby_whose_session_is_lost_goes_on_to_wait(queue, make, connection, log):
    first = make.start(lambda event: None)
    eventually(lambda: private(first.consumer, "worked"))
    second = make.start(lambda event: None)
    eventually(lambda: "waits as a standby" in log.text)
    pid = private(second.consumer, "session").connection.info.backend_pid
    connection.execute("select pg_terminate_backend(%s)", [pid])
    eventually(lambda: log.text.count("waits as a standby") == 2)
    first.stop()
    eventually(lambda: private(second.consumer, "worked"))
    second.stop()
