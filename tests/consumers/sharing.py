"""Shared consumers of both kinds, for tests."""

from __future__ import annotations

import asyncio

from pgqpy.consumers.settings import queues_of
from tests.consumers.harness import END, in_transactions, private
from tests.support.waiting import eventually

NAME = "letters"
IN_FLIGHT = "select coalesce(sum(cardinality(run_ids)), 0)::int from pgq.inflight"
IS_DONE = f"""
    select ({IN_FLIGHT}) = 0 and not exists (
            select from pgq.event_template e
             where not txid_visible_in_snapshot(e.ev_txid, (
                    select front_snapshot from pgq.front order by front_no desc limit 1)))"""
CLAIMED = IN_FLIGHT + " where run_token > 0"
END_LEASES = END.replace("consumer", "leases")
LEASE_ENDS = "update pgq.holder set holder_until = now() - interval '1 second'"


def shared(make, handle, *, lists=False, transactional=False, **settings):
    """Make a shared consumer whose handler calls `handle`, in a thread where it is asynchronous."""
    members = {"queue": "orders", "name": NAME, "shared": True, **settings}
    members["process_batch" if lists else "process_event"] = _handler(make, handle)
    base = in_transactions(make.base, transactional)
    return type("Letters", (base,), members)(make.dsn)


def start(make, handle, **settings):
    """Make and run one; return when it may claim."""
    running = make.run(shared(make, handle, **settings))
    eventually(lambda: not running.thread.is_alive() or _may_claim(running.consumer))
    return running


def _may_claim(consumer):
    run = private(consumer, "shared")
    return run is not None and all(map(run._holders.number, queues_of(consumer)))


def _handler(make, handle):
    async def process_async(_self, what, *more):
        if more or not hasattr(what, "data"):
            result = handle(what, *more)
            if result is not None:
                await result
        else:
            await asyncio.to_thread(handle, what)

    def process(_self, what, *more):
        handle(what, *more)

    return process_async if make.asynchronous else process


def one(connection, query, *params):
    """Return the one value of a query."""
    return connection.execute(query, params).fetchone()[0]


def insert(queue, *datas):
    """Insert events in one transaction; the key is what stands before a hyphen."""
    with queue.client.transaction():
        for data in datas:
            key = data.partition("-")[0] if "-" in data else None
            queue.client.insert_event(queue.name, "test", data, extra1=key)
    queue.tick()


def is_done(connection):
    """Wait until the consumer has handled every event."""
    eventually(lambda: one(connection, IS_DONE))
