"""Relay the events of a queue into a Redis stream: each exactly once, in the order of the queue.

Run it: pgqpy consumer run redis_streams:Relay, with REDIS_URL if Redis is not on localhost.

The id of an entry is TICK-EVENT: the last tick of the event's batch, and the event's id. These ids
grow in the order in which a consumer gets its events, and Redis refuses an id that is not larger
than all before it. After a crash the batch comes again with the same tick, and the entries that the
stream has already are left out. A second process that has lost its lock can add nothing twice.

Redis must keep what it has answered to: appendonly yes, appendfsync always, and no failover to a
replica that lags. Trim the stream as you like, but do not delete it.
"""

import os
from typing import Any

import redis

from pgqpy.consumers import Consumer, OpenBatch

URL = os.environ.get("REDIS_URL", "redis://localhost")
REDIS = redis.Redis.from_url(URL, decode_responses=True)
FIELDS = ("type", "data", "extra1", "extra2", "extra3", "extra4")  # of an event; all may be null
MAX_COMMANDS = 1000  # entries in a transaction of Redis


class Relay(Consumer):
    """Adds the events of a queue to the stream that has the queue's name."""

    queue = "orders"
    name = "redis"
    backoff = (0.1, 10.0)  # seconds between two attempts while Redis is away

    def process_batch(self, batch: OpenBatch) -> None:
        """Add the events that the stream does not have; if that fails, the batch comes again."""
        tick, last = batch.info.tick_id, last_id(self.queue)
        if last[0] > tick:  # to leave these events out would lose them
            text = "the stream is at tick {}, its queue at {}: was it restored, or made anew?"
            raise RuntimeError(text.format(last[0], tick))
        # MULTI: where Redis refuses, out of memory for example, it refuses all of a transaction.
        with REDIS.pipeline(transaction=True) as entries:
            for event in batch:
                if (tick, event.id) > last:
                    last = (tick, event.id)
                    fields: dict[Any, Any] = {"time": event.time.isoformat()}
                    fields |= {
                        it: text for it in FIELDS if (text := getattr(event, it)) is not None
                    }
                    entries.xadd(self.queue, fields, id=f"{tick}-{event.id}")
                if len(entries) == MAX_COMMANDS:
                    entries.execute()
            entries.execute()


def last_id(stream: str) -> tuple[int, ...]:
    """Return the largest id that a stream has ever had."""
    if not REDIS.exists(stream):
        return (0, 0)
    return tuple(map(int, REDIS.xinfo_stream(stream)["last-generated-id"].split("-")))
