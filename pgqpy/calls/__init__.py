"""The calls of SQL functions as data: no connection, no I/O."""

from pgqpy.calls import (
    admin,
    bulk,
    capture,
    consume,
    cron,
    dead_events,
    filters,
    history,
    inflight,
    maintain,
    payload,
    produce,
    read,
    replay,
    sharing,
    ticks,
)
from pgqpy.calls._call import Call, Row
from pgqpy.calls._check import After, Interval, batch_id, event_id, required_interval
from pgqpy.calls.admin import Setting
from pgqpy.calls.dead_events import failure_of
from pgqpy.calls.payload import PAYLOAD_LIMIT, Payload

__all__ = [
    "PAYLOAD_LIMIT",
    "After",
    "Call",
    "Interval",
    "Payload",
    "Row",
    "Setting",
    "admin",
    "batch_id",
    "bulk",
    "capture",
    "consume",
    "cron",
    "dead_events",
    "event_id",
    "failure_of",
    "filters",
    "history",
    "inflight",
    "maintain",
    "payload",
    "produce",
    "read",
    "replay",
    "required_interval",
    "sharing",
    "ticks",
]
