"""Typed events: classes that say what the data of an event holds, and where it belongs."""

from __future__ import annotations

import dataclasses
import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pgqpy.errors import InvalidEvent, UnreadableEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ConfigDict
    from typing_extensions import Unpack

    from pgqpy.records import Event

C = TypeVar("C", bound=type[Any])

QUOTING = ("assertion_error", "union_tag_invalid", "value_error")  # errors whose text has values
KIND = "__pgqpy_event__"  # the attribute of a class that holds its EventKind


class TypedRow(NamedTuple):
    """The arguments of `insert_event` for a typed event; `key` becomes extra1."""

    queue: str
    type: str
    data: Any  # a JSON value
    key: str | float | None


@dataclasses.dataclass
class EventKind:
    """What a class says of its events."""

    owner: type[Any]
    queue: str
    type: str
    key: str | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for names that are no text, and a key that is no field."""
        name = self.owner.__name__
        for word in ("queue", "type"):
            value = getattr(self, word)
            if not (isinstance(value, str) and value):
                raise TypeError(f'{name} needs {word}="…": a text, not {value!r}')
        known = {*vars(self.owner).get("__dataclass_fields__", ())}
        known.update(getattr(self.owner, "model_fields", ()))
        known.update(
            each
            for each in dir(self.owner)
            if isinstance(inspect.getattr_static(self.owner, each), (property, cached_property))
        )
        if self.key is not None and self.key not in known:
            raise TypeError(f"{name} has no field {self.key!r} that could be its key")

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What reads and writes the class. TypeError for a field that has no form in JSON."""
        try:
            return TypeAdapter(self.owner)
        except PydanticUserError as error:
            reason = str(error).partition("\n")[0]
            raise TypeError(f"{self.owner.__name__} is no typed event: {reason}") from error

    def read(self, event: Event) -> Any:
        """Return the data of an event as an instance. Raises UnreadableEvent if it does not fit."""
        try:
            return self.adapter.validate_json(event.data or "")
        except ValidationError as error:
            why = f"the data is no {self.owner.__name__}: {_problems(error)}"
            raise UnreadableEvent(why, event_id=event.id) from None


class TypedEvent(BaseModel):
    """A pydantic model whose instances are events: `client.insert(Placed(customer="ann"))`.

    A class names its queue and its type; a base class may name the queue. `key` is the field that
    is stored as extra1. Raises TypeError for a type without a queue, or a key that is no field.

        class Placed(pgqpy.TypedEvent, queue="orders", type="placed", key="customer"):
            customer: str
            total: Decimal
    """

    __pgqpy_queue__: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        *,
        queue: str | None = None,
        type: str | None = None,
        key: str | None = None,
        **config: Unpack[ConfigDict],
    ) -> None:
        """Show type checkers the keywords, which pydantic hands to the method below."""
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(cls, **keywords: Any) -> None:
        """Keep what the keywords of the class say."""
        cls.__pgqpy_queue__ = keywords.pop("queue", cls.__pgqpy_queue__)
        unknown = keywords.keys() - {"type", "key"}
        if unknown or (keywords and "type" not in keywords):
            what = f"no keyword {unknown.pop()!r}" if unknown else 'a key, and needs type="…" too'
            raise TypeError(f"{cls.__name__} has {what}")
        if keywords:
            setattr(cls, KIND, EventKind(cls, cls.__pgqpy_queue__, **keywords))


def typed_event(*, queue: str, type: str, key: str | None = None) -> Callable[[C], C]:
    """Make the instances of a dataclass events. It stands above `@dataclass`.

    @typed_event(queue="orders", type="placed", key="customer")
    @dataclass
    class Placed: ...
    """

    def mark(owner: C) -> C:
        if not dataclasses.is_dataclass(owner):
            name = owner.__name__
            raise TypeError(f"{name} is no dataclass: write @typed_event(…) above @dataclass")
        setattr(owner, KIND, EventKind(owner, queue, type, key))
        return owner

    return mark


def kind_of(owner: type[Any]) -> EventKind:
    """Return what a class says of its events; TypeError if it is no class of typed events."""
    kind = vars(owner).get(KIND)
    if isinstance(kind, EventKind):
        return kind
    name = owner.__name__
    if issubclass(owner, TypedEvent):
        raise TypeError(f'{name} names no type: write class {name}(…, queue="…", type="…")')
    how = "derive its class from pgqpy.TypedEvent, or mark a dataclass with @pgqpy.typed_event"
    raise TypeError(f"{name} is no typed event: {how}")


def row_of(event: object) -> TypedRow:
    """Return the fields of the event that stores a typed event.

    The event is written as JSON and validated again, because its fields may have been set without
    validation. Raises InvalidEvent if it does not fit, TypeError for another object.
    """
    kind = kind_of(type(event))
    name, adapter = kind.owner.__name__, kind.adapter
    try:
        text = adapter.dump_json(event, by_alias=True, warnings=False)
        valid = adapter.validate_json(text)
        given, read = (adapter.dump_python(each, warnings=False) for each in (event, valid))
        data = adapter.dump_python(valid, mode="json", by_alias=True)
        key = to_jsonable_python(getattr(valid, kind.key)) if kind.key else None
    except ValidationError as error:
        raise InvalidEvent(f"{name}: {_problems(error)}", field="data") from None
    except PydanticSerializationError as error:
        raise InvalidEvent(f"{name} cannot be written as JSON: {error}", field="data") from error
    if given != read:
        other = next((field for field in given if given[field] != read.get(field)), "data")
        why = "comes back as another value: see its aliases, its type, and that it is no secret"
        raise InvalidEvent(f"{name}: {other} {why}", field="data")
    if isinstance(key, (dict, list)):
        raise InvalidEvent(f"{name}: the key {kind.key} is no single value", field="extra1")
    return TypedRow(kind.queue, kind.type, data, key)


def _problems(error: ValidationError) -> str:
    """Say in one line what is wrong, without the values, which may be secret.

    Validators of the application write texts of their own, and a tag is a value.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    places = (".".join(map(str, each["loc"])) or "data" for each in found)
    words = (
        each["type"] if each["type"] in QUOTING else " ".join(each["msg"].split()) for each in found
    )
    return "; ".join(f"{place}: {text}" for place, text in zip(places, words, strict=True))
