"""The rules of the state machine for receivers of messages."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.guarantees.machine_workers import SharedQueueMachine
from tests.guarantees.model_receivers import Receivers
from tests.guarantees.sessions import refused

RECEIVE = """
    select batch_id, attempt, ev_id, ev_txid, ev_retry, ev_data
      from pgq.lease_batch(%s, 'r', %s, '1 hour')
"""
END = "update pgq.position set pos_until = now() - interval '1 day' where pos_batch = %s"
RANGES = """
    select sub_parent is null, pos_last_tick, pos_batch
      from pgq.current_position join pgq.queue on queue_id = sub_queue
      join pgq.consumer on co_id = sub_consumer
     where queue_name = %s and co_name ~ '^r(\\.|$)' and pos_last_tick is not null
"""
WORK = "select batch_id from pgq.take_part(%s, 'r', '1', %s)"
HOW = ("done", "done", "all", "retry", "dead")
ENDS = ("commit", "commit", "commit", "rollback")
choices = st.integers(0, 5)


class ReceiverMachine(SharedQueueMachine):
    """The same with a consumer `r`, whose messages receivers lease."""

    receivers: Receivers | None = None

    @precondition(lambda self: hasattr(self, "model"))
    @rule(
        limits=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        new=st.integers(0, 3),
        ended=st.one_of(st.none(), choices, choices),
    )
    def receive(self, limits: list[int], new: int, ended: int | None) -> None:
        """Lease messages several times, after some more were inserted; leases end in between."""
        if self.receivers is None:
            self.main.one("select pgq.register_consumer(%s, 'r')", self.queue)
            self.receivers = self.model.receivers = Receivers(seen=self.model.ticks[-1])
            self.rows: dict[int, tuple[Any, ...]] = {}
        for number in range(new):
            self.insert(number)
        if new:
            self.tick()
        self.receivers.see(self.model.committed[: self.model.ticks[-1]], "r")
        for limit in limits:
            if ended is not None and self.receivers.leases:
                self.end_lease(ended, extend=False)
            self._receive(self.receivers, limit)

    def _receive(self, receivers: Receivers, limit: int) -> None:
        free = receivers.free()
        rows = self.main.all(RECEIVE, self.queue, limit)
        assert min(len(free), 1) <= len(rows) <= limit
        ids = {event_id for _, _, event_id, _, _, _ in rows}
        assert ids <= free
        if not rows:
            return
        (batch,) = {batch for batch, *_ in rows}
        assert batch not in (*receivers.leases, *receivers.lost)
        receivers.receive(batch, ids)
        for _, attempt, event_id, _, _, data in rows:
            assert data == receivers.open[event_id].data
            if event_id not in receivers.uncertain:
                assert attempt == receivers.attempts.get(event_id, 1)
        self.rows |= {row[2]: row for row in rows}

    @precondition(lambda self: self.receivers is not None)
    @rule(times=st.integers(1, 4), part=choices, how=st.sampled_from(("die", "part", "all", "end")))
    def work_beside(self, times: int, part: int, how: str) -> None:
        """Take a range as workers that die, also an ended lease; the last one may finish events."""
        assert self.receivers is not None
        self.main.one("select pgq.register_subconsumer(%s, 'r', '1')", self.queue)
        for _ in range(times):
            holder = f"run {next(self.runs)}"
            batch = self.main.one(WORK, self.queue, holder)
            self.receivers.see(self.model.committed[: self.model.ticks[-1]], "r")
            if batch is None:
                assert not self.receivers.free()
                return
            ids = sorted(event.id for event in self.main.events(batch))
            assert set(ids) <= self.receivers.free()
            self.receivers.take_over(ids)
        if how == "all":
            assert self.main.finish(batch) == 1
            self.receivers.finish_taken(ids)
        elif how == "part" and ids:
            up_to = self._pick(ids, part)
            assert self.main.one("select pgq.finish_part(%s, %s)", batch, up_to) == 1
            self.receivers.finish_taken([each for each in ids if each <= up_to])
        elif how == "end":
            assert self.main.one("select pgq.end_run(%s, 'r.1', %s)", self.queue, holder) == 1

    @precondition(lambda self: self.receivers is not None and self.receivers.leases)
    @rule(lease=choices, message=choices, how=st.sampled_from(HOW), end=st.sampled_from(ENDS))
    def settle(self, lease: int, message: int, how: str, end: str) -> None:
        """Finish one message of a lease, or all, whether it has ended or not."""
        assert self.receivers is not None
        batch = self._pick(self.receivers.leases, lease)
        held = self.receivers.leases[batch]
        event_id = self._pick(held, message)
        ids = sorted(held) if how == "all" else [event_id]
        _, _, _, txid, retried, _ = self.rows[event_id]
        self.main.begin()
        if how == "retry":
            query = "select pgq.event_retry(%s, array[%s], array[%s], '{0}')"
            assert self.main.one(query, batch, event_id, txid) == 1
        elif how == "dead":
            query = "select pgq.event_dead(%s, array[%s], array[%s], '{why}')"
            assert self.main.one(query, batch, event_id, txid) == 1
        assert self._finish_events(batch, ids) == 1
        self.main.run(end)
        if end == "rollback":
            return
        if how == "retry":
            self.receivers.retry(batch, event_id, "r", (retried or 0) + 1)
        else:
            self.receivers.finish(batch, ids)

    @precondition(lambda self: self.receivers is not None and self.receivers.leases)
    @rule(lease=choices, extend=st.booleans())
    def end_lease(self, lease: int, *, extend: bool) -> None:
        """Let a lease end; its receiver may extend it before another one takes it over."""
        assert self.receivers is not None
        batch = self._pick(self.receivers.leases, lease)
        self.main.connection.execute(END, [batch])
        self.receivers.ended.add(batch)
        if extend:
            assert self.main.one("select pgq.touch_batch(%s, '1 hour')", batch) == 1
            self.receivers.ended.remove(batch)

    @precondition(lambda self: self.receivers is not None and self.receivers.lost)
    @rule(lease=choices)
    def come_late(self, lease: int) -> None:
        """Finish a message, set it aside or extend its lease, when it is another receiver's."""
        assert self.receivers is not None
        batch = self._pick(self.receivers.lost, lease)
        _, _, event_id, txid, _, _ = next(iter(self.rows.values()))
        assert self._finish_events(batch, [event_id]) == 0
        assert self.main.one("select pgq.touch_batch(%s, '1 hour')", batch) == 0
        with refused("PQ003"):
            query = "select pgq.event_retry(%s, array[%s], array[%s], '{0}')"
            self.main.one(query, batch, event_id, txid)

    def _finish_events(self, batch: int, ids: list[int]) -> int:
        query = "select pgq.finish_events(%s, %s::bigint[])"
        found: int = self.main.one(query, batch, ids)
        return found

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        if self.receivers is None:
            return
        self.receivers.see(self.model.committed[: self.model.ticks[-1]], "r")
        found: list[int] = []
        for is_parent, last_tick, batch in self.main.all(RANGES, self.queue):
            if is_parent:
                later = self.model.committed[self.model.ticks[last_tick - 1] : self.receivers.seen]
                found += [copy.id for copy in later if copy.owner in (None, "r")]
            else:
                held = [event.id for event in self.main.events(batch)]
                assert set(held) == self.receivers.leases.get(batch, set(held))
                found += held
        assert sorted(found) == sorted(self.receivers.open)
