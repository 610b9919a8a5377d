"""A consumer `c` of the queue `q` that keeps a table from rotation, beside the consumer `other`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.seek import ticked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

POLICY = "select pgq.set_stall_policy('q', 'c', 'detach', %s, %s)"
MAINT = "select pgq.maint_stalled()"
DETACHED = """
    select count(*) from pgq.registration join pgq.queue on queue_id = sub_queue
     where queue_name = 'q' and sub_detached is not null"""
REATTACH = "select pgq.reattach_consumer('q', 'c', %s)"
TABLE = "select array_agg(ev_data order by ev_id) from pgq.event_1"
# It is an hour later. Whether the ticker ran meanwhile depends on the idle period.
LATER = """
    with late as (
        update pgq.queue set queue_switch_time = queue_switch_time - interval '1 hour'
         where queue_name = 'q' returning queue_id
    ), moved as (
        update pgq.tick set tick_time = tick_time - interval '1 hour' from late
         where tick_queue = queue_id)
    select 1"""
TICKED = "update pgq.queue set queue_ticker_idle_period = '1 day' where queue_name = 'q'"


def stall(db: Database, after: str | None = "30 min", size: int | None = None) -> None:
    """Let `c` keep the next table by the event `a`, beside a consumer that has all events."""
    db.main.one(POLICY, after, size)
    db.main.run(TICKED)
    ticked(db.main, "a")
    assert db.main.rotate() == 1
    db.main.drain("other")
    ticked(db.main, "b")
    assert db.main.rotate() == 2
    db.main.drain("other")
    db.main.one(LATER)
    assert db.main.rotate() == 2, "the table of a is kept"


def detach(db: Database) -> int:
    """Run the maintenance: how many registrations are detached."""
    db.main.one(MAINT)
    return int(db.main.one(DETACHED))
