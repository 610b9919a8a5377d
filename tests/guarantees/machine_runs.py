"""The part of the state machine that begins and ends runs of consumers, in order or not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

if TYPE_CHECKING:
    from tests.guarantees.model import Model
    from tests.guarantees.sessions import Session

names = st.sampled_from(["c", "second"])
POSITIONS = """
    select consumer_name, current_batch is not null, pos_holder, pos_part, pos_tries
      from pgq.get_consumer_info(%s)
      join pgq.consumer on co_name = consumer_name
      join pgq.current_position on sub_consumer = co_id
      join pgq.queue on queue_id = sub_queue and queue.queue_name = %s
     where consumer_name !~ '^r(\\.|$)'
"""


class RunMachine(RuleBasedStateMachine):
    """Runs of the consumers of one queue."""

    runs = itertools.count(1)
    main: Session
    model: Model
    queue: str

    @precondition(lambda self: hasattr(self, "model"))
    @rule(name=names, run=st.sampled_from(["the same", "another", "another"]))
    def begin_run(self, name: str, run: str) -> None:
        """Begin a run, or go on with it in a new session."""
        consumer = self.model.consumers.get(name)
        if consumer is None:
            return
        again = consumer.holder if run == "the same" else None
        holder = again or f"run {next(self.runs)}"
        query = "select part_size, tries, died from pgq.begin_run(%s, %s, %s)"
        found = self.main.all(query, self.queue, name, holder)
        assert found == [consumer.begin_run(holder)]

    @precondition(lambda self: hasattr(self, "model"))
    @rule(name=names, function=st.sampled_from(["widen_run", "end_run"]), own=st.booleans())
    def change_run(self, name: str, function: str, *, own: bool) -> None:
        """Widen the parts, or end in order: as the run at work, or as one that has lost it."""
        consumer = self.model.consumers.get(name)
        if consumer is not None:
            holder = (consumer.holder or "none") if own else "another"
            found = self.main.one(f"select pgq.{function}(%s, %s, %s)", self.queue, name, holder)
            assert found == getattr(consumer, function)(holder)

    @invariant()
    def positions_are_the_models(self) -> None:
        if not hasattr(self, "model"):
            return
        found = self.main.all(POSITIONS, self.queue, self.queue)
        expected = {
            (name, each.open is not None, each.holder, each.part, each.tries)
            for name, each in {**self.model.consumers, **self.model.workers}.items()
        }
        if self.model.shared is not None:
            expected.add(("s", False, None, None, None))
        assert set(found) == expected
