"""What may be stored as an event, and Python values as JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID

from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Default = Callable[[Any], Any]


def _duration(length: dt.timedelta) -> str:
    """Return a length of time in ISO 8601, as pydantic and PostgreSQL read it."""
    seconds, rest = divmod(abs(length) // dt.timedelta(microseconds=1), 1_000_000)
    sign, fraction = "-" if length < dt.timedelta(0) else "", f".{rest:06}" if rest else ""
    return f"{sign}PT{seconds}{fraction}S"


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


FORMS: tuple[tuple[tuple[type, ...], Default], ...] = (
    ((Enum,), attrgetter("value")),
    ((dt.date, dt.time), methodcaller("isoformat")),  # a datetime is a date
    ((dt.timedelta,), _duration),
    ((Decimal, UUID), str),
    ((bytes, bytearray), _base64),
    ((Mapping,), dict),
)

# What json.dumps makes of a key that is no text: 1, 1.5, True, None.
_NO_TEXT_KEY = re.compile(r'[{,]"(?:-?\d[\d.e+-]*|true|false|null)":')
_LONGEST = 80  # characters of a key or class in an error


class Misfit(ValueError):
    """The value at `path` cannot be written; `problem` says why and what to do."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path} {problem}")


def dumps(value: object, default: Default | None = None) -> str:
    """Return `value` as JSON text; `default` converts what the rule does not know.

    Raises Misfit for the first part of it that cannot be written.
    """
    encode = _encode if default is None else _encoder(default).encode
    try:
        return encode(value)
    except Exception as error:  # a conversion of the application's may raise anything
        problem = f"cannot be written as JSON ({type(error).__name__})"
        raise (find_misfit(value, default) or Misfit("$", problem)) from error


def convert(value: Any, default: Default | None = None) -> Any:
    """Convert a `value` whose class json.dumps does not know, by the documented rule.

    A model (pydantic's, or what else has `model_dump`) dumps itself. TypeError: no rule fits.
    """
    for kinds, form in FORMS:
        if isinstance(value, kinds):
            return form(value)
    instance = not isinstance(value, type)
    if instance and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if instance and dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if default is not None:
        return default(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _encoder(default: Default | None) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        default=partial(convert, default=default),
    )


_encode = _encoder(None).encode


def find_misfit(value: object, default: Default | None = None) -> Misfit | None:
    """Return the first part of a value that cannot be stored as JSON, with its path."""
    try:
        return next(_misfits(value, "$", default, ()), None)
    except RecursionError:
        return Misfit("$", "is nested too deep: send less, or text of your own")


def _misfits(
    value: Any, path: str, default: Default | None, above: tuple[int, ...]
) -> Iterator[Misfit]:
    if value is None or isinstance(value, (str, int, float)):
        problem = _problem(value)
        if problem:
            yield Misfit(path, problem)
    elif id(value) in above:
        yield Misfit(path, "contains itself, which JSON cannot hold: send an id in its place")
    else:
        try:
            parts = _parts(value, path, default)
        except Misfit as misfit:
            yield misfit
            return
        for inner_path, inner in parts:
            yield from _misfits(inner, inner_path, default, (*above, id(value)))


def _parts(value: Any, path: str, default: Default | None) -> list[tuple[str, Any]]:
    """Return the parts of a value, or what stands for it, with their paths."""
    if isinstance(value, dict):
        for key in value:
            _check_key(key, path)
        return [(_member(path, key), inner) for key, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
    try:
        return [(path, convert(value, default))]
    except Exception as error:  # of the application's class or json_default
        raise Misfit(path, _no_rule(value, error)) from error


def _problem(value: str | float | None) -> str | None:
    """Say what is wrong with a single value, if anything is."""
    if isinstance(value, str):
        if "\0" in value:
            return "contains a NUL, which PostgreSQL's text and jsonb cannot hold: take it out"
        surrogate = next((n for n, c in enumerate(value) if "\ud800" <= c <= "\udfff"), None)
        if surrogate is not None:
            return (
                f"contains a lone surrogate at position {surrogate}, which is not text: take it out"
            )
    elif isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON cannot hold: send null, or text"
    return None


def _check_key(key: object, path: str) -> None:
    if not isinstance(key, str):
        kind = type(key).__name__
        raise Misfit(path, f"has a key of type {kind}, and keys of JSON are text: make it a str")
    problem = _problem(key)
    if problem:
        raise Misfit(path, f"has a key that {problem}")


def _no_rule(value: object, error: Exception) -> str:
    kind = f"{type(value).__name__}"[:_LONGEST]
    if type(error) is TypeError and "not JSON serializable" in str(error):
        return f"is of type {kind}, which has no form in JSON: convert it, or pass json_default"
    return f"is of type {kind}, whose conversion to JSON raised {type(error).__name__}"


def _member(path: str, key: object) -> str:
    text = str(key)
    if text.isidentifier():
        return f"{path}.{text[:_LONGEST]}"
    return f"{path}[{json.dumps(text[:_LONGEST])}]"


FIELDS = ("type", "data", "extra1", "extra2", "extra3", "extra4")

PAYLOAD_LIMIT = 64 * 1024 * 1024  # octets, of each field


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


class Model(Protocol):
    """A model of pydantic, or what else dumps itself."""

    def model_dump(self, *, mode: str) -> Any:
        """Return the fields; with the mode json as JSON values."""


if TYPE_CHECKING:
    # What is inside of the containers is checked when it is stored.
    Single = str | bytes | bytearray | float | dt.date | dt.time | dt.timedelta | Decimal | UUID
    Payload = (
        Single | Enum | Mapping[str, Any] | list[Any] | tuple[Any, ...] | Dataclass | Model | None
    )
else:
    Payload = object
"""Text, UTF-8 bytes, None, or what JSON can hold, also after `convert`."""

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
        encoded = _text(field, value)
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


def _text(field: str, value: str) -> bytes:
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
    if _NO_TEXT_KEY.search(dumped) and (found := find_misfit(value, default)) is not None:
        raise _misfit(field, found)  # the text "17" may be a key, and 17 may not
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


def texts(
    fields: Iterable[Any], limit: int = PAYLOAD_LIMIT, default: Default | None = None
) -> list[str | None]:
    """Return an event's fields as `encode` does, but as text."""
    return [None if each is None else each.decode() for each in encode(fields, limit, default)]
