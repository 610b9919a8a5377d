"""The examples for Spark run, and do what they say; so does the code of the page about it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.markdown import Block, blocks
from tests.docs.transcript import Shell
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pgqpy

EXAMPLES = {name.name for name in files("examples/spark/*.py")}
BY_THE_README = {"read_lake.py", "spent.py"}
HERE = {"windowed_counts.py", "latest_state.py", "submit_pipeline.py"}
SESSION = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
STATES = "select account, balance from account_state order by account"


class Terminal:
    """A folder with the examples, in which commands are run, and a queue to fill."""

    def __init__(self, shell: Shell, folder: Path, client: pgqpy.Client) -> None:
        self._shell = shell
        self.folder = folder
        self.client = client

    def run(self, *lines: str) -> None:
        """Run one command; the lines after it are what it is to print."""
        self._shell.run(
            Block("examples/spark", 0, "console", "", "\n".join(["$ " + lines[0], *lines[1:]]))
        )

    def insert(self, queue: str, *datas: dict[str, Any]) -> None:
        """Insert events, and tick."""
        self.client.insert_events(queue, [{"type": "placed", "data": data} for data in datas])
        self.client.tick_queue(queue)


@pytest.fixture
def terminal(dsn: str, client: pgqpy.Client, tmp_path: Path) -> Iterator[Terminal]:
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / "spark" / name, tmp_path)
    with Shell(tmp_path, dsn) as shell:
        yield Terminal(shell, tmp_path, client)


def test_every_example_is_run() -> None:
    assert BY_THE_README | HERE == EXAMPLES


@pytest.mark.slow
def test_windows_are_counted_once_and_wait_for_who_is_late(terminal: Terminal) -> None:
    terminal.client.create_queue("transfers")
    terminal.insert("transfers", transfer(1, 10, "10:00:10"), transfer(2, 5, "10:00:50"))
    terminal.insert("transfers", transfer(1, 20, "10:01:30"), transfer(1, -3, "10:00:59"))
    terminal.run("python windowed_counts.py")
    terminal.insert("transfers", transfer(1, 0, "10:10:00"))
    terminal.run("python windowed_counts.py")
    terminal.insert("transfers", transfer(1, 100, "10:00:30"), transfer(1, 7, "10:20:00"))
    terminal.run("python windowed_counts.py")
    assert counts(terminal.folder) == [
        ("10:00:00", 1, 2, 7),
        ("10:00:00", 2, 1, 5),
        ("10:01:00", 1, 1, 20),
        ("10:10:00", 1, 1, 0),
    ]


def transfer(branch: int, delta: int, at: str) -> dict[str, Any]:
    return {"branch": branch, "delta": delta, "at": f"2026-01-01T{at}Z"}


def counts(folder: Path) -> list[tuple[Any, ...]]:
    lines = (line for file in folder.glob("counts/*.json") for line in file.read_text().split("\n"))
    rows = [json.loads(line) for line in lines if line]
    return sorted(
        (row["start"][11:19], row["branch"], row["transfers"], row["delta"]) for row in rows
    )


@pytest.mark.slow
def test_the_latest_state_is_kept_and_an_epoch_that_comes_again_does_nothing(
    terminal: Terminal,
) -> None:
    execute = terminal.client.connection.execute
    terminal.client.create_queue("balances")
    terminal.insert("balances", balance(1, 10), balance(2, 20), balance(1, 30))
    killed = (terminal.folder / "latest_state.py").read_text().partition("pgqpy.spark.finish")[0]
    (terminal.folder / "killed.py").write_text(killed)
    terminal.run("python killed.py", "epoch 1: 2 accounts")
    assert execute(STATES).fetchall() == [(1, 30), (2, 20)]
    execute("update account_state set balance = 31 where account = 1")
    commit = terminal.folder / "latest_state.checkpoint" / "commits" / "1"
    commit.unlink()
    commit.with_name(".1.crc").unlink()
    terminal.insert("balances", balance(2, 40))
    terminal.run("python latest_state.py", "epoch 2: 1 accounts")
    assert execute(STATES).fetchall() == [(1, 31), (2, 40)]


def balance(account: int, amount: int) -> dict[str, int]:
    return {"account": account, "balance": amount}


@pytest.mark.slow
def test_spark_submit_runs_the_pipeline(terminal: Terminal) -> None:
    terminal.client.create_queue("orders")
    terminal.insert("orders", {"customer": "ann"}, {"customer": "bob"})
    terminal.run(
        "spark-submit --master 'local[2]' submit_pipeline.py --queue orders --to lake --once "
        "--starting-offsets earliest --schema 'customer STRING'",
        "pipeline: stopped at tick 2: 2 events, 0 of them bad",
    )


def test_the_page_about_spark_works(terminal: Terminal) -> None:
    terminal.client.create_queue("orders")
    terminal.client.create_queue("archive")
    terminal.client.register_consumer("orders", "lake")
    terminal.insert("orders", {"customer": "ann"}, {"customer": "bob"})
    page = [block.text for block in blocks("docs/spark.md", "python") if block.note == "run"]
    (terminal.folder / "page.py").write_text(SESSION + "\n".join(page))
    terminal.run("python page.py", "2")
    assert list((terminal.folder / "lake").glob("*.parquet"))
    (info,) = terminal.client.get_consumer_info("orders", "lake")
    assert info.pending_events == 0
    archived = terminal.client.connection.execute("select count(*) from pgq.event_2")
    assert archived.fetchone() == (2,)
