"""Take one mechanism of the turns of queues out, and the test that is there for it has to fail."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack, closing
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pgqpy.consumers import turns
from tests.consumers import test_turns as checks

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = "table"


class Mutation(NamedTuple):
    """A part of the module's text, what stands there instead, and the test that must fail."""

    old: str
    new: str
    check: Callable[..., None]


MUTATIONS = {
    "let whoever asks first go first": Mutation(
        "or self._next() != queue", "", checks.test_the_earliest_queue_that_waits_has_the_next_turn
    ),
    "give two queues the turn": Mutation(
        "self._holder is not None or ",
        "",
        checks.test_the_earliest_queue_that_waits_has_the_next_turn,
    ),
    "keep the turn between parts": Mutation(
        "return found != queue",
        "return False",
        checks.test_the_earliest_queue_that_waits_has_the_next_turn,
    ),
    "starve later queues": Mutation(
        "if late:", "if False:", checks.test_a_later_queue_has_a_turn_after_the_interval
    ),
    "go on after a turn for being late": Mutation(
        "place.waiting, place.passed_over = False, 0.0",
        "place.waiting = False",
        checks.test_a_later_queue_has_a_turn_after_the_interval,
    ),
    "count the time of later queues": Mutation(
        "self._places[(self._holder or 0) + 1 :]",
        "self._places",
        checks.test_only_work_of_earlier_queues_makes_a_later_one_late,
    ),
    "begin before earlier queues have looked": Mutation(
        "any(place.starting for place in self._places[:first])",
        "False",
        checks.test_at_the_start_later_queues_wait_for_the_first_look_of_earlier_ones,
    ),
    "wait for a queue that cannot start": Mutation(
        "place.waiting = place.starting = False",
        "place.waiting = False",
        checks.test_a_queue_that_cannot_start_delays_no_other,
    ),
    "run beside the open batch of another queue": Mutation(
        "return not exposed",
        "return True",
        checks.test_a_queue_with_an_open_batch_hides_before_handlers_of_another_run,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_it_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(turns)
    assert source.count(mutation.old) == 1
    changed = ModuleType("changed_turns")
    monkeypatch.setitem(sys.modules, changed.__name__, changed)  # dataclasses look there
    exec(compile(source.replace(mutation.old, mutation.new), __file__, "exec"), vars(changed))
    with ExitStack() as stack:  # a test that fails does not close them

        def make(*args: Any) -> Any:
            return stack.enter_context(closing(changed.Turns(*args)))

        monkeypatch.setattr(checks, "Turns", make)
        tables = [checks.Table()] * (TABLE in inspect.signature(mutation.check).parameters)
        with pytest.raises(AssertionError):
            mutation.check(*tables)
