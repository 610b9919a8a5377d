"""Lanes: what is refused and why, spare runs, and what the log tells."""

from __future__ import annotations

import pytest

import pgqpy
from pgqpy import calls
from pgqpy.errors import ConsumerRunning, SchemaMissing, WrongMode
from tests.consumers.harness import CONSUMER, QUEUE, SESSIONS, Maker, Queue, patched
from tests.consumers.lanes import LANES, in_order, insert, works
from tests.consumers.workers import count_statements, taken
from tests.support.waiting import eventually


def ignore(event):
    """Handle an event."""


PLAIN: dict[str, bool] = {}
SHARED = {"shared": True}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lanes": 0, "key": "extra1"}, "lanes is None or a number of lanes from 1 to 1,024"),
        ({"lanes": 1025, "key": "extra1"}, "lanes is None or a number of lanes from 1 to 1,024"),
        ({"lanes": True, "key": "extra1"}, "lanes is None or a number of lanes from 1 to 1,024"),
        ({"lanes": 8}, "lanes needs key, one of type, extra1, .*: the server divides the events"),
        ({"lanes": 8, "key": staticmethod(ignore)}, "lanes needs key, .* not know a function"),
        ({"lanes": 8, "key": "extra1", "shared": True}, "lanes does not go with shared = True"),
    ],
)
def test_settings_that_make_no_sense_with_lanes_are_refused(make, settings, words):
    with pytest.raises(ValueError, match=words):
        make.consumer(ignore, **settings)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (LANES, PLAIN, r"the consumer orders/billing has lanes.*set_consumer_mode"),
        (LANES, SHARED, r"the consumer orders/billing has lanes.*set_consumer_mode"),
        (PLAIN, LANES, r"the consumer orders/billing has no lanes.*set_lanes"),
        (SHARED, LANES, r"the consumer orders/billing has no lanes.*set_lanes"),
    ],
)
def test_a_class_of_another_mode_is_refused_after_a_run(queue, make, first, second, words, log):
    running = make.start(ignore, **first)
    queue.deliver("a")
    running.stop()
    with pytest.raises(WrongMode, match=words) as caught:
        make.start(ignore, **second).join()
    assert "\n" not in str(caught.value)
    assert "could not tell" not in log.text


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize(
    ("first", "second", "error", "words"),
    [
        (LANES, PLAIN, ConsumerRunning, r"runs already.*shared = True or lanes"),
        (LANES, SHARED, WrongMode, r"has lanes"),
        (PLAIN, LANES, WrongMode, r"has no lanes.*set_lanes"),
        (SHARED, LANES, WrongMode, r"has no lanes.*set_lanes"),
    ],
)
def test_a_class_of_another_mode_is_refused_beside_a_run(make, queue, first, second, error, words):
    running = make.start(ignore, **first)
    eventually(lambda: works(running))
    queue.deliver("a")
    with pytest.raises(error, match=words):
        make.start(ignore, **second).join()


@pytest.mark.parametrize("lease", [None, 3600])
def test_a_class_with_another_key_is_refused(queue, make, lease):
    running = make.start(ignore, **LANES, lease=lease)
    eventually(lambda: works(running))
    words = r"has lanes by extra1, and \w+\.key is extra2: change one of them \(`pgqpy consumer set"
    with pytest.raises(WrongMode, match=words) as caught:
        make.start(ignore, **LANES | {"key": "extra2"}, lease=lease).join()
    assert (caught.value.queue, caught.value.consumer) == (QUEUE, CONSUMER)


@pytest.mark.parametrize("settings", [{}, {"concurrency": 4}, {"on_error": "park"}])
def test_a_class_with_the_new_key_finishes_the_old_lanes_first(queue, make, client, settings):
    """They are behind, and no process with the old key runs any more."""
    seen = []
    chosen = LANES | settings
    first = make.start(ignore, **chosen)
    eventually(lambda: works(first))
    first.stop()
    datas = insert(queue, range(1, 5))
    assert client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 3, "extra2")) == 1
    make.start(lambda event: seen.append(event.data), **chosen | {"key": "extra2"})
    datas += insert(queue, range(5, 7))
    eventually(lambda: len(seen) >= len(datas))
    assert sorted(seen) == sorted(datas)
    assert in_order([data for data in seen if data[-1] < "5"])


def test_while_the_key_changes_a_failed_event_keeps_no_other_waiting(queue, make, client):
    """With park, events of its new key would wait; other old lanes may have some of them."""
    seen = []

    def fail_once(event):
        seen.append((event.data, event.retry))
        if event.data == "1" and not event.retry:
            raise OSError

    chosen = LANES | {"on_error": "park", "backoff": (0.05, 3600.0)}

    def stop(_event):
        first.stop()

    first = make.consumer(stop, **chosen | {"part_size": 1})
    for number in range(5):
        client.insert_event(QUEUE, "t", str(number), extra1="old", extra2="new")
    queue.tick()
    make.run(first).join()  # stops after event 0: its batch stays open, so its lane stays
    assert client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 3, "extra2")) == 1
    make.start(fail_once, **chosen | {"key": "extra2"})
    eventually(lambda: queue.retry_now() < 0 or ("1", 1) in seen)
    assert seen == [*((str(number), None) for number in range(1, 5)), ("1", 1)]


def test_a_consumer_goes_back_from_lanes_to_plain(queue, make, client, connection):
    seen = []
    first = make.start(lambda event: seen.append(event.data), **LANES)
    queue.deliver("a")
    client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 1, "extra1"))
    queue.deliver("b")
    first.stop()
    eventually(lambda: not connection.execute(SESSIONS).fetchall())
    assert client.call(calls.share.set_consumer_mode(QUEUE, CONSUMER, "plain")) == 1
    make.start(lambda event: seen.append(event.data))
    queue.insert("c")
    eventually(lambda: seen == ["a", "b", "c"])


@pytest.mark.usefixtures("no_ticker_check")
def test_spare_runs_tell_once_that_they_wait_and_send_one_statement_a_look(
    queue, make, gate, waiting_handler, log, monkeypatch, connection, effects, polls
):
    """Two lanes are busy: the other runs ask at each tick and at each poll, and no more."""
    chosen = LANES | {"lanes": 2}
    polls(0.01)
    busy = [make.start(waiting_handler[False], **chosen) for _ in range(2)]
    datas = insert(queue, [1])
    eventually(lambda: len(gate.waiting()) == len(busy))
    sent = count_statements(monkeypatch)
    with patched("lane_lock.SPARE", 0.05):
        spare = [make.start(ignore, **chosen) for _ in range(3)]
        text = "consumer billing of queue orders: 2 lane(s) are with other processes, this one wait"
        eventually(lambda: log.text.count(text) == len(spare))
        del sent[:]
        eventually(lambda: len(sent) > 50)
    assert all("take_lane" in each for each in sent), set(sent)
    assert log.text.count(text) == len(spare)
    gate.open()
    queue.wait_until_finished()
    eventually(lambda: len(effects()) == len(datas) and not taken(connection))


@pytest.mark.usefixtures("no_ticker_check")
def test_many_runs_share_eight_lanes(
    queue, dsn, gate, waiting_handler, log, monkeypatch, connection, effects, polls
):
    maker, chosen = Maker(dsn, asynchronous=False), LANES | {"lanes": 8}
    polls(0.5)
    keys = [f"key{number}" for number in range(40)]
    with patched("lane_lock.SPARE", 0.05):
        started = [maker.start(waiting_handler[False], **chosen) for _ in range(24)]
        try:
            eventually(lambda: all(map(works, started)))
            datas = insert(queue, [1, 2], keys)
            eventually(lambda: len(gate.waiting()) == 8)
            # A run may tell it before the last lane is taken: so the number is not looked at.
            eventually(lambda: log.text.count("lane(s) are with other processes") == 16)
            sent = count_statements(monkeypatch)
            queue.tick()
            eventually(lambda: len(sent) > 16)
            # A look after a tick sets up the batch that it may find, in the same round trip.
            looks = [each for each in sent if "synchronous_commit" not in each]
            assert all("take_lane" in each for each in looks), set(looks)
            gate.open()
            eventually(lambda: len(effects()) >= len(datas))
            assert sorted(effects()) == sorted(datas)
            assert in_order(effects())
        finally:
            gate.open()
            maker.close()


def test_the_extension_pgq_has_no_lanes(extension_dsn, asynchronous):
    maker = Maker(extension_dsn, asynchronous=asynchronous)
    with pgqpy.connect(extension_dsn) as client:
        Queue(client)
        with pytest.raises(SchemaMissing, match="take_lane"):
            maker.start(ignore, **LANES).join()
        with pytest.raises(SchemaMissing, match="set_lanes"):
            client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 8, "extra1"))
