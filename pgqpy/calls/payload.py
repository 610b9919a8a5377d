"""What may be stored as an event, decided before anything is sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pgqpy.calls.json_values import Default, Misfit, dumps, find_misfit
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS = ("type", "data", "extra1", "extra2", "extra3", "extra4")

PAYLOAD_LIMIT = 64 * 1024 * 1024  # octets, of each field

Payload = object
"""Text, UTF-8 bytes, None, or what JSON can hold, also after `json_values.convert`."""

# An escaped NUL: \u0000 after an even number of backslashes. PostgreSQL's jsonb refuses it.
_JSON_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def octets(
    field: str, value: Payload, limit: int = PAYLOAD_LIMIT, default: Default | None = None
) -> bytes | None:
    """Return the UTF-8 that stores `value`, of at most `limit` octets; None stays None.

    `default` converts what has no form in JSON otherwise. Raises InvalidEvent, which names the
    field: NUL, a lone surrogate, not UTF-8, not JSON, or too large.
    """
    if value is None:
        return None
    if isinstance(value, str):
        encoded = _encode(field, value)
    elif isinstance(value, (bytes, bytearray)):
        encoded = _utf8(field, bytes(value))
    else:
        encoded = _json(field, value, default)
    if b"\0" in encoded:
        reason = "contains a NUL, which PostgreSQL's text cannot hold: take it out, or send base64"
        raise _invalid(field, reason)
    if len(encoded) > limit:
        reason = (
            f"is {len(encoded)} octets, over the limit of {limit}: "
            "store it elsewhere and send a reference, or raise payload_limit"
        )
        raise _invalid(field, reason)
    return encoded


def _encode(field: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as exc:
        reason = (
            f"contains a lone surrogate at position {exc.start}, which is not text: take it out"
        )
        raise _invalid(field, reason) from None


def _utf8(field: str, value: bytes) -> bytes:
    try:
        value.decode()
    except UnicodeDecodeError as exc:
        reason = f"is not UTF-8 at byte {exc.start}: decode it first, or send base64"
        raise _invalid(field, reason) from None
    return value


def _json(field: str, value: object, default: Default | None) -> bytes:
    try:
        dumped = dumps(value, default)
        encoded = dumped.encode()
    except Misfit as misfit:
        raise _misfit(field, misfit) from misfit.__cause__
    except UnicodeEncodeError:
        raise _misfit(field, find_misfit(value, default)) from None
    if "\\u0000" in dumped and _JSON_NUL.search(dumped):
        raise _misfit(field, find_misfit(value, default))
    return encoded


def _misfit(field: str, misfit: Misfit | None) -> InvalidEvent:
    # None: json_default returned something else the second time, when the place was looked for.
    return _invalid(field, str(misfit or "cannot be written as JSON that PostgreSQL can hold"))


def encode(
    fields: Iterable[Any], limit: int = PAYLOAD_LIMIT, default: Default | None = None
) -> list[bytes | None]:
    """Return the UTF-8 of an event's fields: its type, which is text, its data and its extras."""
    values = dict(zip(FIELDS, fields, strict=False))
    kind = values["type"]
    if kind is not None and not isinstance(kind, str):
        raise _invalid("type", f"must be a str, not {type(kind).__name__}")
    return [octets(field, value, limit, default) for field, value in values.items()]


def _invalid(field: str, reason: str) -> InvalidEvent:
    return InvalidEvent(f"{field} {reason}", field=field)
