"""What docs/capture.md shows keeps a Delta table like the captured one, whatever happens to it."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from pgqpy.cli.app import app
from tests.docs.markdown import blocks

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    import pgqpy

KEYS = 20
TABLE = (
    "create schema shop; create table shop.orders (id int primary key, item text, amount numeric)"
)
WRITES = (
    """insert into shop.orders values (%(id)s, %(item)s, 2.50)
           on conflict (id) do update set item = excluded.item""",
    "update shop.orders set amount = amount + 0.25, item = null where id = %(id)s",
    "delete from shop.orders where id = %(id)s",
    """update shop.orders set id = %(other)s where id = %(id)s
           and not exists (select from shop.orders where id = %(other)s)""",
)


class Lake:
    """The page's program, run again and again in a folder."""

    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        (block,) = [each for each in blocks("docs/capture.md", "python") if each.note == "spark"]
        self.folder = folder
        self._names = {"spark": spark, "dsn": dsn}
        text = block.text.replace('format("pgq")', 'format("pgq").option("dsn", dsn)')
        text = text.replace('"orders"', repr(f"{folder}/orders"))
        text = text.replace('"merged"', repr(f"{folder}/merged"))
        end = ".trigger(availableNow=True).start().awaitTermination()"
        self._program = compile(text.replace(".start()", end), "docs/capture.md", "exec")

    def merge(self) -> list[tuple[Any, ...]]:
        """Merge what is there, and return the rows."""
        exec(self._program, dict(self._names))
        rows = DeltaTable(f"{self.folder}/orders").to_pyarrow_table().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    def forget_commit(self) -> None:
        """Do as if the driver had been killed after the merge, and before Spark noted it."""
        last = max(self.folder.glob("merged/commits/[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink()


@pytest.fixture
def shop(client: pgqpy.Client, connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """A captured table that has rows already."""
    connection.execute(TABLE.encode())
    connection.execute("insert into shop.orders select n, 'old', n from generate_series(1, 9) n")
    client.create_queue("shop")
    client.register_consumer("shop", "lake")
    connection.execute("select pgq.add_capture('shop', 'shop.orders')")
    return connection


def test_a_delta_table_follows_a_captured_one(
    spark: SparkSession,
    client: pgqpy.Client,
    shop: psycopg.Connection[Any],
    dsn: str,
    tmp_path: Path,
) -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")  # noqa: T201  # shown where the test fails
    choose = random.Random(seed)
    lake = Lake(spark, dsn, tmp_path)

    def write() -> None:
        for _ in range(30):
            keys = {"id": choose.randint(1, KEYS), "other": choose.randint(1, KEYS)}
            shop.execute(choose.choice(WRITES).encode(), {**keys, "item": str(choose.random())})

    def assert_same() -> None:
        client.tick_queue("shop")
        assert lake.merge() == shop.execute("select * from shop.orders order by id").fetchall()

    write()
    copied = CliRunner().invoke(app, ["--dsn", dsn, "capture", "snapshot", "shop.orders"])
    assert copied.exit_code == 0, copied.stderr
    write()
    assert_same()
    write()
    shop.execute("truncate shop.orders")
    write()
    assert_same()
    lake.forget_commit()
    assert_same()
    shop.execute("truncate shop.orders")
    assert_same()
