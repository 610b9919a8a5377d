"""The part of the state machine in which processes open batches, and release them or die."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

if TYPE_CHECKING:
    from tests.guarantees.model import Model
    from tests.guarantees.sessions import Session

names = st.sampled_from(["c", "second"])
POSITIONS = """
    select consumer_name, current_batch is not null, pos_attempts
      from pgq.get_consumer_info(%s)
      join pgq.consumer on co_name = consumer_name
      join pgq.current_position on sub_consumer = co_id
      join pgq.queue on queue_id = sub_queue and queue.queue_name = %s
"""


class RunMachine(RuleBasedStateMachine):
    """Processes of the consumers of one queue."""

    main: Session
    model: Model
    queue: str

    @precondition(lambda self: hasattr(self, "model"))
    @rule(name=names, end=st.sampled_from(["dies", "dies", "releases it"]))
    def open_batch(self, name: str, end: str) -> None:
        """Open the batch as a new process, which then dies, or ends in order."""
        consumer = self.model.consumers.get(name)
        if consumer is None:
            return
        query = "select batch_id, attempts from pgq.open_batch(%s, %s)"
        ((batch, attempts),) = self.main.all(query, self.queue, name)
        if not self.model.next(name):
            assert (batch, attempts) == (None, None)
            return
        consumer.attempts = (consumer.attempts or 0) + 1
        assert attempts == consumer.attempts
        if end != "dies":
            assert self.main.one("select pgq.release_batch(%s)", batch) == 1
            consumer.attempts -= 1

    @invariant()
    def positions_are_the_models(self) -> None:
        if not hasattr(self, "model"):
            return
        found = self.main.all(POSITIONS, self.queue, self.queue)
        expected = {
            (name, each.open is not None, each.attempts)
            for name, each in self.model.consumers.items()
        }
        assert set(found) == expected
