"""The rules of the state machine for the workers of a shared consumer."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.guarantees.machine import QueueMachine, maybe_an_index
from tests.guarantees.workers import SLOWEST

WORKERS = ("s.1", "s.2", "s.3")
ENDS = ("commit", "commit", "rollback", "leave open", "leave open")
TAKE = """
    select batch_id from pgq.take_part(%s, 's', %s, i_dead_interval => %s::interval)
"""
BATCHES = "select current_batch from pgq.get_consumer_info(%s, %s)"


class SharedQueueMachine(QueueMachine):
    """The same with a shared consumer `s`, whose workers take ranges, and take over."""

    def _register_workers(self) -> None:
        for name in WORKERS:
            self.main.one("select pgq.register_subconsumer(%s, 's', %s)", self.queue, name[2:])
        self.model.share(WORKERS)
        self.lost: list[int] = []

    @precondition(lambda self: hasattr(self, "model"))
    @rule(
        name=st.sampled_from(WORKERS),
        dead=st.booleans(),
        data=st.integers(0, 2),
        retry=maybe_an_index,
        part=maybe_an_index,
        end=st.sampled_from(ENDS),
    )
    def work(
        self, name: str, retry: int | None, part: int | None, end: str, data: int, *, dead: bool
    ) -> None:
        """Take a range, perhaps a dead worker's, and handle it, or leave it open."""
        if self.model.shared is None:
            self._register_workers()
        if data:
            for number in range(data):
                self.insert(number)
            self.tick()
        assert self.model.shared is not None
        held = {each: self._batch(each) for each in WORKERS}
        there = self.model.take_part(name, dead=dead)
        batch = self.main.one(TAKE, self.queue, name[2:], "-1 day" if dead else None)
        assert (batch is not None) == there
        self.lost += [each for each in held.values() if each not in (None, self._batch(name))]
        self.lost = [each for each in self.lost if each not in map(self._batch, WORKERS)]
        for lost in self.lost[-3:]:
            assert self.main.finish(lost) == 0
        if not there:
            return
        self._read_range(name, batch)
        self._finish_range(name, batch, part)
        if end == "leave open":
            return
        retries = dict(self.model.shared.retries)
        self.main.begin()
        self._retry(name, batch, retry)
        assert self.main.finish(batch) == 1
        self.main.run(end)
        if end == "commit":
            self.model.finish(name)
        else:
            self.model.shared.retries = retries

    def _finish_range(self, name: str, batch: int, choice: int | None) -> None:
        copies = self.model.batch(name)
        if copies and choice is not None:
            up_to = copies[choice % len(copies)].id
            assert self.main.one("select pgq.finish_part(%s, %s)", batch, up_to) == 1
            self.model.finish_part(name, up_to, [])
            self._read_range(name, batch)

    def _read_range(self, name: str, batch: int) -> None:
        expected = [(copy.id, copy.data) for copy in self.model.batch(name)]
        assert [(event.id, event.data) for event in self.main.events(batch)] == expected

    def _batch(self, name: str) -> int | None:
        batch: int | None = self.main.one(BATCHES, self.queue, name)
        return batch

    @invariant()
    def no_range_is_absent(self) -> None:
        if hasattr(self, "model"):
            slowest = self.main.one(SLOWEST.replace("'q'", "%s"), self.queue)
            assert slowest - 1 == self.model.slowest()
