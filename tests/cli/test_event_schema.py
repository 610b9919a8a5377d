"""`pgqpy event schema`: what is printed, and which changes of a class break the reading."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from unittest.mock import ANY
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pgqpy import json_schemas
from pgqpy.cli import pipeline
from tests.cli.support import Module, Run, failed_with


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    count: Annotated[int, Field(ge=1)] = 1


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@dataclass
class Everything:
    id: int
    at: datetime
    day: date
    hour: time
    took: timedelta
    total: Decimal
    number: UUID
    colour: Colour
    kind: Literal["a"]
    lines: list[Line]
    names: dict[str, int]
    pair: tuple[int, str]
    either: int | str | None
    tree: Tree
    anything: Any
    share: float = 0.5
    paid: bool | None = None


def schemas(kind: Any) -> tuple[Any, Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return adapter.json_schema(mode="serialization"), adapter.json_schema(mode="validation")


def breaks(old: Any, new: Any) -> list[str]:
    return json_schemas.breaks(schemas(old)[0], schemas(new)[1])


@pytest.mark.parametrize("kind", [Everything, Tree, Line])
def test_a_class_reads_what_it_writes(kind: Any) -> None:
    assert breaks(kind, kind) == []


class Old(BaseModel):
    id: int
    note: str | None = None
    colour: Colour = Colour.RED
    line: Line
    lines: list[Line] = []
    pair: tuple[int, int] = (1, 2)
    names: dict[str, int] = {}


def changed(**fields: Any) -> Any:
    """Return Old with other fields, and their defaults; None: without this field."""
    kinds = {name: each.annotation for name, each in Old.model_fields.items()}
    kinds = {name: kind for name, kind in {**kinds, **fields}.items() if kind is not None}
    values = {name: None for name in kinds if name not in {"id", "line", "total"}}
    return type("New", (BaseModel,), {"__annotations__": kinds, **values})


class Red(enum.Enum):
    RED = "red"


class Narrower(BaseModel):
    sku: Annotated[str, Field(max_length=5)]
    count: Annotated[int, Field(ge=2)] = 1


class Wider(BaseModel):
    sku: str
    count: Annotated[int, Field(ge=0)] = 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, []),
        ({"note": None}, []),
        ({"id": float}, []),
        ({"id": int | str}, []),
        ({"note": Any}, []),
        ({"colour": str}, []),
        ({"pair": tuple[int, ...]}, []),
        ({"line": Wider}, []),
        ({"total": Decimal}, ["total is new, and is required"]),
        ({"id": str}, ["id was integer, is string"]),
        ({"id": Annotated[int, Field(le=9)]}, ["id has maximum 9, had none"]),
        ({"id": date}, ["id was integer, is string date"]),
        ({"note": str}, ["note was null, is string"]),
        ({"note": datetime | None}, ["note was string, is string date-time or null"]),
        ({"colour": Red}, ["colour was 'blue', is 'red'"]),
        ({"colour": Literal["red", "blue", "green"]}, []),
        ({"note": Literal["a"] | None}, ["note was string, is 'a' or null"]),
        (
            {"line": Narrower},
            ["line.sku has maxLength 5, had none", "line.count has minimum 2, had 1"],
        ),
        ({"lines": list[Narrower]}, ["lines[].sku has maxLength 5, had none", ANY]),
        ({"lines": list[str]}, ["lines[] was object, is string"]),
        ({"pair": tuple[int, str]}, ["pair[1] was integer, is string"]),
        ({"names": dict[str, str]}, ["names{} was integer, is string"]),
        ({"id": bool | None}, ["id was integer, is boolean or null"]),
    ],
)
def test_each_change_that_cannot_read_old_events_is_a_line(
    fields: dict[str, Any], told: list[str]
) -> None:
    assert breaks(Old, changed(**fields)) == told


def test_an_alternative_may_be_added_and_not_be_taken_away() -> None:
    assert breaks(Line, Line | Tree) == []
    assert breaks(Line | Tree, Line) == ["sku may be missing, and is required"]


def test_a_field_that_is_gone_breaks_where_unknown_ones_are_refused() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")
        sku: str

    assert breaks(Line, Strict) == ["count is removed, and unknown fields are refused"]


def test_a_change_inside_of_a_class_that_contains_itself_is_found() -> None:
    class Node(BaseModel):
        name: int
        children: list[Node] = []

    Node.model_rebuild(_types_namespace={"Node": Node})
    assert breaks(Tree, Node) == ["name was string, is integer"]


def test_columns_are_those_that_spark_reads() -> None:
    assert json_schemas.ddl(*schemas(Everything)) == (
        "id BIGINT NOT NULL, at TIMESTAMP NOT NULL, day DATE NOT NULL, hour STRING NOT NULL, "
        "took STRING NOT NULL, total STRING NOT NULL, number STRING NOT NULL, "
        "colour STRING NOT NULL, kind STRING NOT NULL, "
        "lines ARRAY<STRUCT<sku: STRING, count: BIGINT>> NOT NULL, "
        "names MAP<STRING, BIGINT> NOT NULL, pair STRING NOT NULL, either STRING, "
        "tree STRUCT<name: STRING, children: ARRAY<STRING>> NOT NULL, anything STRING, "
        "share DOUBLE, paid BOOLEAN"
    )


MODULE = """
import pgqpy
from pgqpy.consumers import Consumer

class Placed(pgqpy.TypedEvent, queue="orders", type="placed"):
    id: int
    note: str | None = None

class Other(Placed):
    pass
"""


def test_the_command_prints_and_checks(run: Run, module: Module, tmp_path: Any) -> None:
    name = module(f"from __future__ import annotations\n{MODULE}")
    printed = run("event", "schema", f"{name}:Placed").stdout
    assert json.loads(printed)["properties"]["id"] == {"title": "Id", "type": "integer"}
    ddl = run("event", "schema", f"{name}:Placed", "--ddl").stdout
    assert ddl == "id BIGINT NOT NULL, note STRING\n"
    old = tmp_path / "placed.json"
    old.write_text(printed)
    same = run("event", "schema", f"{name}:Placed", "--check", str(old))
    assert (same.exit_code, same.stdout) == (0, "")
    old.write_text(printed.replace('"integer"', '"string"'))
    broken = run("event", "schema", f"{name}:Placed", "--check", str(old))
    assert (broken.exit_code, broken.stdout) == (1, "id was string, is integer\n")
    for text in ("{", '{"$ref": "#/$defs/Gone"}'):
        old.write_text(text)
        failed_with(run("event", "schema", f"{name}:Placed", "--check", str(old)), 1, "no JSON S")


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("orders", 2, "such as orders:Placed"),
        (":Placd", 1, "has no class Placd; it has Placed, Other"),
        (":Other", 1, "Other names no type"),
        (":Consumer", 1, "Consumer is no typed event"),
        (":pgqpy", 1, "is no class"),
    ],
)
def test_what_is_no_typed_event_is_one_line(
    run: Run, module: Module, place: str, code: int, says: str
) -> None:
    name = module(MODULE) if place[0] == ":" else ""
    failed_with(run("event", "schema", name + place), code, says)


def test_a_pipeline_takes_the_columns_of_a_class(module: Module) -> None:
    options = {"format": "parquet", "to": "lake"}
    name = module(MODULE)
    columns = pipeline._checked({**options, "schema": f"{name}:Placed"})["schema"]
    assert columns == "id BIGINT NOT NULL, note STRING"
    for ddl in ("id:INT", "id:int", "infer", "id INT, at TIMESTAMP"):
        assert pipeline._checked({**options, "schema": ddl})["schema"] == ddl
