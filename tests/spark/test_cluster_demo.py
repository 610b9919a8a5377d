"""The profile `spark` of docker-compose.yml, run without Docker: its cluster, and its pipeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pyarrow.dataset as ds
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.spark.harness_cluster import standalone
from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import PythonProcess

pytestmark = pytest.mark.long

DEMO = ROOT / "examples" / "compose"
COMPOSE = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
PATIENCE = 300  # seconds
PLACED = "select count(*), sum(cents)::int from placed"


def command(service: str) -> list[str]:
    """Return the words of a service's command, a line each in the file."""
    block = COMPOSE.partition(f"\n  {service}:\n")[2].partition("    command:\n")[2]
    lines = re.match(r"(?:      - .*\n)+", block)
    assert lines is not None
    return [line.strip().removeprefix("- ") for line in lines[0].splitlines()]


def test_the_pipeline_of_the_demo_writes_every_order_into_the_lake(
    empty_dsn: str, tmp_path: Path, spawn: Callable[..., PythonProcess]
) -> None:
    given = {f"PG{key.upper()}": str(value) for key, value in conninfo_to_dict(empty_dsn).items()}
    given["PGDATABASE"] = given.pop("PGDBNAME")
    env = {**given, "ALIVE_FILE": str(tmp_path / "alive"), "PRODUCER_PERIOD": "0.01"}
    prepare = spawn(str(DEMO / "prepare.py"), env=env)
    assert prepare.wait() == 0, prepare.output()
    ticker = spawn("-m", "pgqpy", "ticker", "run", env=env)
    producer = spawn(str(DEMO / "producer.py"), env=env)
    # The executors find the database in the environment of their worker.
    with standalone(tmp_path, given) as cluster:
        words = [
            word.replace("/lake/", f"{tmp_path}/").replace("spark://spark-master:7077", cluster.url)
            for word in command("pipeline")
        ]
        assert words[:3] == ["pgqpy", "pipeline", "run"]
        pipeline = spawn("-m", *words, env={**env, "SPARK_LOCAL_DIRS": str(tmp_path / "scratch")})
        pipeline.wait_for_output("events/s", PATIENCE)
        assert producer.terminate() == 0, producer.output()
        with psycopg.connect(empty_dsn) as connection:
            placed = connection.execute(PLACED.encode()).fetchone()
        eventually(lambda: lake(tmp_path / "orders") == placed, PATIENCE, interval=0.5)
        assert pipeline.terminate(PATIENCE) == 0, pipeline.output()
    assert ticker.terminate() == 0, ticker.output()


def lake(folder: Path) -> tuple[int, int]:
    """Return how many orders the files hold, and their sum, as any reader of parquet sees them."""
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table(columns=["cents"])
    return table.num_rows, sum(table["cents"].to_pylist())
