"""The calls of SQL functions as data: no connection, no I/O."""

from pgqpy.calls import admin, bulk, consume, maintain, payload, produce, read, ticks
from pgqpy.calls._call import Call, Row
from pgqpy.calls._check import After, Interval, batch_id, event_id
from pgqpy.calls.admin import Setting
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
    "consume",
    "event_id",
    "maintain",
    "payload",
    "produce",
    "read",
    "ticks",
]
