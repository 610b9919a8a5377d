"""JSON Schemas of typed events: as columns of Spark, and whether one reads what another wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = Any  # a JSON value: an object, or True for anything

SINGLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
SAME = ("format", "pattern", "multipleOf", "uniqueItems")


def ddl(written: Schema, read: Schema) -> str:
    """Return the columns of an object as Spark's DDL; ValueError if it is no object.

    `written` says what is stored, `read` what has to be there: older events may lack the rest.
    """
    root = _resolved(written, written)
    if "properties" not in root:
        raise ValueError("the data is no object with fields, so it has no columns")
    required = _resolved(read, read).get("required", ())
    return ", ".join(
        f"{_quoted(name)} {_column(field, written)}"
        + (" NOT NULL" if name in required and not _may_be_null(field, written) else "")
        for name, field in root["properties"].items()
    )


def _column(schema: Schema, root: Schema, above: tuple[str | None, ...] = ()) -> str:
    """Return the type of a column; a STRING holds the JSON of what has no one type."""
    kinds = [each for each in _alternatives(schema, root) if _type(each) != "null"]
    name = _reference(schema)
    if not kinds or (name is not None and name in above):  # a class that contains itself
        return "STRING"
    found = {_single(each, root, (*above, name)) for each in kinds}
    return found.pop() if len(found) == 1 else "STRING"


def _single(kind: Mapping[str, Any], root: Schema, above: tuple[str | None, ...]) -> str:
    if isinstance(kind.get("items"), dict):
        return f"ARRAY<{_column(kind['items'], root, above)}>"
    if "properties" in kind:
        fields = kind["properties"].items()
        inner = ", ".join(f"{_quoted(name)}: {_column(each, root, above)}" for name, each in fields)
        return f"STRUCT<{inner}>"
    if isinstance(kind.get("additionalProperties"), dict):
        return f"MAP<STRING, {_column(kind['additionalProperties'], root, above)}>"
    return SINGLE.get(_type(kind), FORMATS.get(kind.get("format", ""), "STRING"))


def _quoted(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else f"`{name.replace('`', '``')}`"


def _may_be_null(schema: Schema, root: Schema) -> bool:
    return any(_type(each) in {"null", ""} for each in _alternatives(schema, root))


def breaks(written: Schema, read: Schema) -> list[str]:
    """Say in a line each why values that fit `written` may not fit `read`."""
    return list(dict.fromkeys(_breaks(written, read, "", (written, read), frozenset())))


def _breaks(
    old: Schema, new: Schema, path: str, roots: tuple[Schema, Schema], seen: frozenset[Any]
) -> Iterator[str]:
    at = (_reference(old), _reference(new))
    if None not in at and at in seen:
        return  # a class that contains itself
    inside = seen | {at}
    choices = list(_alternatives(new, roots[1]))
    for kind in _alternatives(old, roots[0]):
        found = [list(_misfits(kind, each, path, roots, inside)) for each in choices]
        if all(found):  # no choice takes it: show the nearest one, of the same type
            same = [why for why, each in zip(found, choices, strict=True) if _like(kind, each)]
            wanted = " or ".join(dict.fromkeys(map(_words, choices)))
            changed = [f"{path or 'data'}: was {_words(kind)}, is {wanted}"]
            yield from min(same, key=len, default=changed)


def _misfits(
    old: Schema, new: Schema, path: str, roots: tuple[Schema, Schema], seen: frozenset[Any]
) -> Iterator[str]:
    """Yield why values of one kind may not fit another kind."""
    here = path or "data"
    if _type(new) and not _like(old, new):
        yield f"{here}: was {_words(old)}, is {_words(new)}"
        return
    if "enum" in new:
        if "enum" not in old:
            yield f"{here}: took any value, takes {_words(new)}"
        gone = [value for value in old.get("enum", ()) if value not in new["enum"]]
        yield from (f"{here}: value {value!r} is removed" for value in gone)
        return
    if "enum" not in old:
        yield from _narrower(old, new, here)
    if "items" in new or "prefixItems" in new:
        yield from _items(old, new, here, roots, seen)
    yield from _fields(old, new, path, roots, seen)


def _narrower(old: Schema, new: Schema, here: str) -> Iterator[str]:
    for name in (*LEAST, *MOST, *SAME):
        if name not in new or new[name] == old.get(name):
            continue
        before = old.get(name)
        wider = before is not None and name not in SAME
        if not (wider and (new[name] < before) == (name in LEAST)):
            yield f"{here}: {name} is {new[name]}, was {'none' if before is None else before}"


def _items(
    old: Schema, new: Schema, here: str, roots: tuple[Schema, Schema], seen: frozenset[Any]
) -> Iterator[str]:
    before, after = old.get("prefixItems", []), new.get("prefixItems", [])
    for number in range(max(len(before), len(after))):
        one, other = (
            side[number] if number < len(side) else kind.get("items", True)
            for side, kind in ((before, old), (after, new))
        )
        yield from _breaks(one, other, f"{here}[{number}]", roots, seen)
    if not before and "items" in new:
        yield from _breaks(old.get("items", True), new["items"], f"{here}[]", roots, seen)


def _fields(
    old: Schema, new: Schema, path: str, roots: tuple[Schema, Schema], seen: frozenset[Any]
) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    others = new.get("additionalProperties", True)
    for name in new.get("required", ()):
        if name not in old.get("required", ()):
            had = "may be missing, and" if name in before else "is new and"
            yield f"{_inner(path, name)}: {had} is required"
    for name, field in before.items():
        if name not in after and others is False:
            yield f"{_inner(path, name)}: is removed, and unknown fields are refused"
        else:
            yield from _breaks(field, after.get(name, others), _inner(path, name), roots, seen)
    rest = old.get("additionalProperties", True)
    if isinstance(rest, dict) and not (before or after):
        yield from _breaks(rest, others, f"{path or 'data'}{{}}", roots, seen)


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _reference(schema: Schema) -> str | None:
    return schema.get("$ref") if isinstance(schema, dict) else None


def _resolved(schema: Schema, root: Schema) -> Mapping[str, Any]:
    """Return the object that a schema is, or names."""
    while (name := _reference(schema)) is not None:
        schema = root["$defs"][name.rpartition("/")[2]]
    return schema if isinstance(schema, dict) else {}


def _alternatives(schema: Schema, root: Schema) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas, each of one type, of which a value has to fit one."""
    found = _resolved(schema, root)
    inner = found.get("anyOf", found.get("oneOf"))
    if inner is not None:
        for each in inner:
            yield from _alternatives(each, root)
    elif "const" in found:
        yield {**found, "enum": [found["const"]]}
    else:
        yield found


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type; "" is any."""
    return str(schema.get("type", ""))


def _like(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return _type(old) == _type(new) or (_type(old), _type(new)) == ("integer", "number")


def _words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    words = " ".join(dict.fromkeys((_type(schema) or "anything", schema.get("format", ""))))
    return words.strip()
