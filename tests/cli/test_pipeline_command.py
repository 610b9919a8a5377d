"""`pgqpy pipeline run`: what is wrong is said in one line, most of it before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Run, Spawn, failed_with
from tests.support.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path


RUN = ("pipeline", "run", "--queue", "orders")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["--to is missing"]),
        (["--to", "lake", "--format", "console"], ["--format console", "remove --to"]),
        (["--to", "lake", "--once", "--every", "5s"], ["--once and --every"]),
        (["--to", "lake", "--rescue"], ["--rescue", "add --schema"]),
        (["--to", "lake", "--every", "soon"], ["'soon' is not an interval", "10s"]),
        (["--to", "lake", "--max-events", "0"], ["--max-events"]),
        (["--to", "lake", "--partition-by", "day"], ["--partition-by: it is for tables"]),
        (["--to", "lake", "--evolve", "add"], ["--evolve: it is for tables"]),
        (["--to", "a.b", "--format", "delta", "--catalog", "c"], ["--format iceberg"]),
        (
            ["--to", "a.b", "--format", "iceberg", "--catalog", "c"],
            ["--catalog: it needs --bad-to"],
        ),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    bare_run: Run, options: list[str], words: list[str]
) -> None:
    assert failed_with(bare_run(*RUN, *options), 2, *words)


def test_clean_refuses_a_catalog_of_another_format(bare_run: Run) -> None:
    command = ("pipeline", "clean", "--format", "delta", "--to", "lake", "--catalog", "c")
    assert failed_with(bare_run(*command), 2, "--catalog: it is for --format iceberg")


def test_an_unknown_queue_is_told_before_spark_starts(run: Run) -> None:
    assert failed_with(run(*RUN, "--to", "lake"), 1, "no queue 'orders'", "pgqpy queue list")


def test_without_java_one_sentence_says_how_to_get_it(
    bare_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert failed_with(bare_run(*RUN, "--to", "lake"), 1, "Java 17 or later", "openjdk-17")


@pytest.mark.parametrize(("kind", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_without_the_package_of_a_table_one_sentence_says_how_to_get_it(
    spawn: Spawn, kind: str, package: str
) -> None:
    code = f"""
import sys
sys.modules["{package}"] = None
from pgqpy.cli import main
main()
"""
    command = (*RUN, "--to", "lake", "--format", kind)
    process = spawn("-c", code, *command)
    assert process.wait() == 1
    assert f'{package} is needed: pip install "pgqpy[spark,{kind}]"' in process.output()


def test_without_pyspark_one_sentence_says_how_to_get_it(spawn: Spawn) -> None:
    code = """
import sys
from importlib import metadata
def version(name, found=metadata.version):
    if name == "pyspark":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
sys.modules["pyspark"] = None
from pgqpy.cli import main
main()
"""
    process = spawn("-c", code, *RUN, "--to", "lake")
    assert process.wait() == 1
    assert process.output() == 'error: pyspark is needed: pip install "pgqpy[spark]"\n'


def test_the_same_command_is_there_for_spark_submit(spawn: Spawn) -> None:
    process = spawn(str(ROOT / "examples/spark/submit_pipeline.py"), "--help")
    assert process.wait() == 0
    assert "Usage: pgqpy pipeline run" in process.output()


@pytest.mark.parametrize(
    ("variable", "options", "words"),
    [
        ("SPARK_REMOTE", [], "SPARK_REMOTE asks for Spark Connect"),
        ("SPARK_CONNECT_MODE_ENABLED", [], "SPARK_CONNECT_MODE_ENABLED asks for Spark Connect"),
        ("OTHER", ["--master", "sc://spark"], "--master sc://spark asks for Spark Connect"),
    ],
)
def test_spark_connect_is_refused_with_what_is_supported(
    bare_run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, options: list[str], words: str
) -> None:
    monkeypatch.setenv(variable, "sc://spark")
    found = bare_run(*RUN, "--to", "lake", *options)
    assert failed_with(found, 2, "needs a classic Spark session", words, "spark-submit")
