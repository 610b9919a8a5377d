"""JSON Schemas of typed events: as columns of Spark, and whether one reads what another wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Kind = Mapping[str, Any]  # a schema of one type

SINGLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LIMITS = (*LEAST, *MOST, "pattern", "multipleOf", "uniqueItems")


def ddl(written: Any, read: Any) -> str:
    """Return the columns of an object as Spark's DDL; ValueError if it is no object.

    `written` says what is stored, `read` what has to be there: older events may lack the rest.
    """
    root, needed = _resolved(written, written), _places(read)[""].required or set()
    if "properties" not in root:
        raise ValueError("the data is no object with fields, so it has no columns")
    columns = []
    for name, inner in root["properties"].items():
        types = {_type(each) for each in _kinds(inner, written)}
        strict = " NOT NULL" if name in needed and not types & {"null", ""} else ""
        columns.append(f"{_quoted(name)} {_column(inner, written)}{strict}")
    return ", ".join(columns)


def _column(schema: Any, root: Any, above: tuple[str | None, ...] = ()) -> str:
    """Return the type of a column; a STRING holds the JSON of what has no one type."""
    name = _reference(schema)
    if name is not None and name in above:  # a class that contains itself
        return "STRING"
    kinds = [each for each in _kinds(schema, root) if _type(each) != "null"]
    found = {_single(each, root, (*above, name)) for each in kinds}
    return found.pop() if len(found) == 1 else "STRING"


def _single(kind: Kind, root: Any, above: tuple[str | None, ...]) -> str:
    inner = {step: _column(each, root, above) for step, each in _parts(kind)}
    if "[]" in inner:
        return f"ARRAY<{inner['[]']}>"
    if "properties" in kind:
        fields = (f"{_quoted(name)}: {inner[f'.{name}']}" for name in kind["properties"])
        return f"STRUCT<{', '.join(fields)}>"
    if "{}" in inner:
        return f"MAP<STRING, {inner['{}']}>"
    return SINGLE.get(_type(kind), FORMATS.get(kind.get("format", ""), "STRING"))


def _quoted(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else f"`{name.replace('`', '``')}`"


@dataclass
class Place:
    """What may stand at one place of the data."""

    kinds: dict[str, str] = field(default_factory=dict)  # words or values, and their types
    limits: dict[tuple[str, str], Any] = field(default_factory=dict)  # by type and name
    required: set[str] | None = None  # in each of the objects that may stand here; None: no object
    closed: bool = False  # unknown fields are refused


def breaks(written: Any, read: Any) -> list[str]:
    """Say in a line each why data that fits `written` may not fit `read`."""
    old, new = _places(written), _places(read)
    lines = []
    for path, before in old.items():
        name, after = path.removeprefix(".") or "data", new.get(path)
        if after is None:
            above, dot, _ = path.rpartition(".")
            if dot and above in new and new[above].closed:
                lines.append(f"{name} is removed, and unknown fields are refused")
            continue
        lines += [f"{name} {each}" for each in _narrower(before, after)]
        for each in sorted((after.required or set()) - (before.required or set())):
            full = f"{path}.{each}"
            had = "may be missing" if full in old else "is new"
            lines.append(f"{full.removeprefix('.')} {had}, and is required")
    return lines


def _narrower(old: Place, new: Place) -> Iterator[str]:
    takes = {*new.kinds, *(["integer"] if "number" in new.kinds else [])}
    if "anything" in takes:
        return
    refused = [each for each, kind in old.kinds.items() if not {each, kind} & takes]
    if refused:
        yield f"was {' or '.join(refused)}, is {' or '.join(new.kinds)}"
        return
    for (kind, name), value in new.limits.items():
        before = old.limits.get((kind, name))
        if kind not in old.kinds.values() or value == before:
            continue
        if before is None or name not in (*LEAST, *MOST) or (value > before) == (name in LEAST):
            yield f"has {name} {value}, had {'none' if before is None else before}"


def _places(schema: Any) -> dict[str, Place]:
    """Return what may stand at each place, by its path."""
    places: dict[str, Place] = {}
    _note(schema, schema, "", places, ())
    return places


def _note(
    schema: Any, root: Any, path: str, places: dict[str, Place], above: tuple[str | None, ...]
) -> None:
    name = _reference(schema)
    if name is not None and name in above:  # a class that contains itself
        return
    place = places.setdefault(path, Place())
    for kind in _kinds(schema, root):
        type_ = _type(kind)
        words = " ".join(filter(None, (type_ or "anything", kind.get("format"))))
        place.kinds.update(dict.fromkeys(map(repr, kind.get("enum", ())), type_) or {words: type_})
        place.limits.update({(type_, key): kind[key] for key in LIMITS if key in kind})
        if type_ == "object":
            needed = set(kind.get("required", ()))
            place.required = needed if place.required is None else place.required & needed
        place.closed |= kind.get("additionalProperties") is False
        for step, inner in _parts(kind):
            _note(inner, root, path + step, places, (*above, name))


def _parts(kind: Kind) -> Iterator[tuple[str, Any]]:
    """Yield what is inside, and the step of the path to it."""
    yield from ((f".{name}", each) for name, each in kind.get("properties", {}).items())
    yield from ((f"[{number}]", each) for number, each in enumerate(kind.get("prefixItems", ())))
    for step, key in (("[]", "items"), ("{}", "additionalProperties")):
        if isinstance(kind.get(key), dict):
            yield step, kind[key]


def _kinds(schema: Any, root: Any) -> Iterator[Kind]:
    """Yield the schemas of one type each, of which a value has to fit one."""
    found = _resolved(schema, root)
    for each in found.get("anyOf", found.get("oneOf", ())):
        yield from _kinds(each, root)
    if not found.keys() & {"anyOf", "oneOf"}:
        yield {**found, "enum": [found["const"]]} if "const" in found else found


def _resolved(schema: Any, root: Any) -> Kind:
    while (name := _reference(schema)) is not None:
        schema = root["$defs"][name.rpartition("/")[2]]
    return schema if isinstance(schema, dict) else {}


def _reference(schema: Any) -> str | None:
    return schema.get("$ref") if isinstance(schema, dict) else None


def _type(kind: Kind) -> str:
    """Return the type; "" is any."""
    return str(kind.get("type", ""))
