"""What docs/spark.md shows happens; the examples do what they say.

Commands that need Spark share a session: see spark_session.py.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from tests.docs.markdown import Block, blocks
from tests.docs.spark_session import END
from tests.docs.transcript import Shell, check, steps
from tests.support.databases import new_database
from tests.support.tree import ROOT, files
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

PAGE = "docs/spark.md"
EXAMPLES = {name.name for name in files("examples/spark/*.py")}
BY_THE_PAGE = {"read_lake.py", "spent.py", "read_delta.py", "read_iceberg.py"}
HERE = {"windowed_counts.py", "latest_state.py", "submit_pipeline.py"}
# What the tutorial leaves behind: three orders, and a ticker that runs.
BEFORE_SPARK = """
$ pgqpy queue create orders
$ pgqpy ticker run &
$ python place_orders.py
""".strip()
SESSION = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
STATES = "select account, balance from account_state order by account"
TIMEOUT = 300  # seconds


class SparkShell(Shell):
    """A terminal whose commands share a session of Spark, but for those that prepare."""

    def __init__(self, folder: Path, dsn: str, client: pgqpy.Client) -> None:
        super().__init__(folder, dsn)
        self.folder, self.client = folder, client

    def start_spark(self) -> None:
        """From here on each command runs in one process, in turn."""
        program = Path(__file__).with_name("spark_session.py")
        self._process, self._output = self._start(f"{sys.executable} -u {program}", reads=True)

    def prepare(self) -> None:
        """Do what the tutorial does, once."""
        if not self.client.get_queue_info("orders"):
            self.run(Block(PAGE, 0, "console", "", BEFORE_SPARK))

    def tell(self, command: str, *shown: str) -> None:
        """Run a command in the process that has Spark, and compare what it prints."""
        before = len(self._output.read_text())
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()

        def ended() -> str:
            printed = self._output.read_text()[before:]
            assert self._process.poll() is None, printed
            return printed if END in printed else ""

        printed = eventually(ended, TIMEOUT)
        assert f"{END} 0\n" in printed, f"$ {command}\n{printed}"
        check(f"$ {command}", list(shown), printed)

    def insert(self, queue: str, *datas: dict[str, Any]) -> None:
        """Insert events, and tick."""
        self.client.insert_events(queue, [{"type": "placed", "data": data} for data in datas])
        self.client.tick_queue(queue)


@pytest.fixture(scope="module")
def shell(
    server: Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkShell]:
    """One for all tests, in a folder with the examples."""
    folder = tmp_path_factory.mktemp("examples")
    for example in files("examples/spark/*.py", "examples/shop/*.py"):
        shutil.copy(ROOT / example, folder)
    with new_database(server, template) as name:
        dsn = server.dsn(name)
        with pgqpy.connect(dsn) as client, SparkShell(folder, dsn, client) as shell:
            shell.start_spark()
            yield shell


def test_every_example_is_run() -> None:
    assert BY_THE_PAGE | HERE == EXAMPLES


@pytest.mark.slow
def test_spark_happens_as_the_page_says(shell: SparkShell) -> None:
    shell.prepare()
    for block in blocks(PAGE):
        if (block.language, block.note) == ("console", "spark"):
            for step in steps(block):
                shell.tell(step.command, *step.shown)
    client = shell.client
    client.create_queue("archive")
    page = [block.text for block in blocks(PAGE, "python") if block.note == "spark"]
    (shell.folder / "page.py").write_text(SESSION + "\n".join(page))
    shell.tell("python page.py")
    assert list((shell.folder / "raw").glob("*.parquet"))
    (info,) = client.get_consumer_info("orders", "raw")
    assert info.pending_events == 0
    client.tick_queue("archive")
    last = client.get_queue_info("archive")[0].last_tick_id
    archived = "select ev_type from pgq.get_tick_events('archive', 1, %s)"
    assert client.connection.execute(archived, [last]).fetchall() == [("archived",)] * 3


@pytest.mark.slow
def test_tables_happen_as_the_page_says(shell: SparkShell) -> None:
    page = "docs/lake.md"
    shell.prepare()
    for block in blocks(page, "python"):
        (shell.folder / Path(block.note).name).write_text(block.text)
    for block in blocks(page, "console"):
        for step in steps(block):
            shell.tell(step.command, *step.shown)


@pytest.mark.slow
def test_windows_are_counted_once_and_wait_for_who_is_late(shell: SparkShell) -> None:
    shell.client.create_queue("transfers")
    shell.insert("transfers", transfer(1, 10, "10:00:10"), transfer(2, 5, "10:00:50"))
    shell.insert("transfers", transfer(1, 20, "10:01:30"), transfer(1, -3, "10:00:59"))
    shell.tell("python windowed_counts.py")
    shell.insert("transfers", transfer(1, 0, "10:10:00"))
    shell.tell("python windowed_counts.py")
    shell.insert("transfers", transfer(1, 100, "10:00:30"), transfer(1, 7, "10:20:00"))
    shell.tell("python windowed_counts.py")
    assert counts(shell.folder) == [
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
    shell: SparkShell,
) -> None:
    execute = shell.client.connection.execute
    shell.client.create_queue("balances")
    shell.insert("balances", balance(1, 10), balance(2, 20), balance(1, 30))
    killed = (shell.folder / "latest_state.py").read_text().partition("pgqpy.spark.finish")[0]
    (shell.folder / "killed.py").write_text(killed)
    shell.tell("python killed.py", "epoch 1: 2 accounts")
    assert execute(STATES).fetchall() == [(1, 30), (2, 20)]
    execute("update account_state set balance = 31 where account = 1")
    commit = shell.folder / "latest_state.checkpoint" / "commits" / "1"
    commit.unlink()
    commit.with_name(".1.crc").unlink()
    shell.insert("balances", balance(2, 40))
    shell.tell("python latest_state.py", "epoch 2: 1 accounts")
    assert execute(STATES).fetchall() == [(1, 31), (2, 40)]


def balance(account: int, amount: int) -> dict[str, int]:
    return {"account": account, "balance": amount}


@pytest.mark.slow
def test_spark_submit_runs_the_pipeline(dsn: str, client: pgqpy.Client, tmp_path: Path) -> None:
    client.create_queue("orders")
    client.insert_events("orders", [{"type": "placed", "data": {"customer": "ann"}}])
    client.tick_queue("orders")
    shutil.copy(ROOT / "examples" / "spark" / "submit_pipeline.py", tmp_path)
    command = (
        "spark-submit --master 'local[2]' submit_pipeline.py --queue orders --to lake --once "
        "--starting-offsets earliest --schema 'customer STRING'"
    )
    shown = "pipeline: stopped at tick 2: 1 event, 0 of them bad"
    with Shell(tmp_path, dsn) as shell:
        shell.run(Block("examples/spark", 0, "console", "", f"$ {command}\n{shown}"))
