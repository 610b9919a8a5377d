"""The signal handlers that all consumers of a process share."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from functools import partial

import pytest

from pgqpy.consumers import signals
from pgqpy.consumers.signals import STOP_SIGNALS, stop_on_signals
from tests.support.waiting import eventually


@pytest.fixture
def application():
    """Handlers of the application, which note the signals that reach them.

    A consumer that an earlier test left running would get the signals too.
    """
    eventually(lambda: signals._handlers._stops == [])
    caught = []
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in before:
        signal.signal(number, lambda number, _frame: caught.append(number))
    yield caught
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_first_signal_reaches_every_consumer_and_the_second_the_application(application):
    drained: list[str] = []
    with ExitStack() as stack:
        for name in "ab":
            stack.enter_context(stop_on_signals(partial(drained.append, name)))
        signal.raise_signal(signal.SIGTERM)
        assert drained == ["a", "b"]
        assert application == []
        signal.raise_signal(signal.SIGINT)
        assert application == [signal.SIGINT]
    assert drained == ["a", "b"]
    assert application == [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", set(STOP_SIGNALS) - {signal.SIGINT})
def test_the_application_gets_the_signal_when_the_last_consumer_has_ended(application, number):
    drained: list[str] = []
    with stop_on_signals(partial(drained.append, "a")):
        with stop_on_signals(partial(drained.append, "b")):
            signal.raise_signal(number)
        assert application == []
    assert application == [number]
    with stop_on_signals(partial(drained.append, "c")):
        pass
    assert application == [number]


def test_ctrl_c_ends_consumers_without_the_exception_of_the_application(application):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    drained: list[str] = []
    with stop_on_signals(partial(drained.append, "a")):
        signal.raise_signal(signal.SIGINT)
    assert drained == ["a"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_consumer_that_ends_leaves_the_signals_to_those_that_run(application, first):
    drained: list[str] = []
    runs = [stop_on_signals(partial(drained.append, name)) for name in "ab"]
    for run in runs:
        run.__enter__()
    runs[first].__exit__(None, None, None)
    signal.raise_signal(signal.SIGTERM)
    assert drained == ["ba"[first]]
    runs[1 - first].__exit__(None, None, None)
    assert application == [signal.SIGTERM]
    signal.raise_signal(signal.SIGTERM)
    assert application == [signal.SIGTERM] * 2


def test_a_signal_also_stops_consumers_in_other_threads(application):
    drained: list[str] = []
    running, may_end = threading.Event(), threading.Event()

    def run():
        with stop_on_signals(partial(drained.append, "thread")):
            running.set()
            assert may_end.wait(30)

    thread = threading.Thread(target=run)
    with stop_on_signals(partial(drained.append, "main")):
        thread.start()
        assert running.wait(30)
        signal.raise_signal(signal.SIGTERM)
    assert drained == ["main", "thread"]
    may_end.set()
    thread.join()
    signal.raise_signal(signal.SIGTERM)
    assert application == [signal.SIGTERM] * 2
