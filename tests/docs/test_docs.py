"""The pages in docs/: their commands run, their code works, their tables are the code's."""

from __future__ import annotations

import configparser
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqpy import locks
from pgqpy.consumers import Consumer
from pgqpy.consumers.settings import SETTINGS, BaseConsumer
from pgqpy.embedded import wheel_programs
from pgqpy.spark.sink import options as sink_options
from pgqpy.spark.source import options as source_options
from pgqpy.sqlstates import BY_SQLSTATE
from pgqpy.ticker.settings import TickerSettings
from tests.docs.markdown import Block, blocks, codes, rows, text
from tests.docs.transcript import Shell
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = [str(name) for name in files("*.md") if name.parts[0] != "tests"]
CONSUMERS, OPERATIONS, SQL = "docs/consumers.md", "docs/operations.md", "docs/sql.md"
SPARK, RECIPES, SIMULATE = "docs/spark.md", "docs/recipes.md", "docs/simulate.md"
LANES, DELAY = "docs/lanes.md", "docs/delay.md"
BY_HAND = re.compile(r"by-hand: \S.+")
VARIABLES = {f"PGQPY_{name.upper()}": it for name, it in TickerSettings.model_fields.items()}
KNOWN = {"tutorial", "spark", "demo", "run", "rolled-back", "pgqpy-ticker.service", ""}
KNOWN |= {"insert", "consume"}
SOURCES = ("schema", "ticker", "consumers", "pgqpy")


def test_every_block_is_tested_or_says_why_not() -> None:
    pages = ["README.md", CONSUMERS, OPERATIONS, SQL, SPARK, RECIPES, SIMULATE, LANES, DELAY]
    unknown = [
        f"{block.document}:{block.line}: {block.note}"
        for page in pages
        for block in blocks(page)
        if block.note not in KNOWN
        and not block.note.startswith("examples/")
        and not BY_HAND.fullmatch(block.note)
    ]
    assert unknown == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(document))
    folder = (ROOT / document).parent
    assert [target for target in targets if not (folder / target).exists()] == []


def test_the_consumers_page_works(dsn: str, client: Any, tmp_path: Path) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(CONSUMERS):
            if BY_HAND.fullmatch(block.note):
                continue
            if block.language == "console":
                shell.run(block)
            elif block.note == "run":
                (tmp_path / "block.py").write_text(block.text)
                shell.run(block._replace(text="$ python block.py\n"))
            else:
                assert_is_consumers(block)


def test_the_lanes_page_works(dsn: str, tmp_path: Path) -> None:
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(LANES):
            if block.language == "console" and not block.note:
                shell.run(block)
            elif block.language == "python":
                assert_is_consumers(block)


def test_the_delay_page_works(dsn: str, client: Any, tmp_path: Path) -> None:
    client.create_queue("orders")
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(DELAY):
            if block.language == "sql":
                psql(dsn, block.text)
            elif block.language == "python":
                (tmp_path / "block.py").write_text(block.text)
                shell.run(block._replace(text="$ python block.py\n"))
            else:
                shell.run(block)


def assert_is_consumers(block: Block) -> None:
    module: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text, f"{block.document}:{block.line}", "exec"), module)
    classes = [value for value in module.values() if isinstance(value, type)]
    made = [kind("") for kind in classes if issubclass(kind, Consumer) and kind is not Consumer]
    assert made


def test_the_settings_of_consumers_are_all_described() -> None:
    described = {codes(name)[0]: default for name, default, _ in rows(CONSUMERS, "setting")}
    assert set(described) == set(SETTINGS) - {"queue", "name"}
    for name, default in described.items():
        assert codes(default) == [repr(getattr(BaseConsumer, name)).replace("'", '"')]


def test_the_recipes_insert_and_consume_by_other_drivers(
    dsn: str, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in conninfo_to_dict(dsn).items():
        monkeypatch.setenv(f"PG{'DATABASE' if name == 'dbname' else name.upper()}", str(value))
    with Shell(tmp_path, dsn) as shell:

        def run(block: Block) -> None:
            (tmp_path / "recipe.py").write_text(block.text)
            shell.run(block._replace(text="$ python recipe.py\n"))

        (console,) = blocks(RECIPES, "console")
        shell.run(console)
        psql(dsn, blocks(RECIPES, "sql")[0].text)
        recipes = blocks(RECIPES, "python")
        inserts = [block for block in recipes if block.note == "insert"]
        for count, block in enumerate(inserts, start=2):
            run(block)
            assert client.get_queue_info("orders")[0].ev_new == count, block
        client.tick_queue("orders")
        (consume,) = (block for block in recipes if block.note == "consume")
        run(consume)
    (info,) = client.get_consumer_info("orders", "billing")
    assert info.pending_events == 0
    assert client.get_consumer_counts()[0][:4] == ("orders", "billing", 1, 0)


def test_the_operations_page_works(dsn: str, tmp_path: Path) -> None:
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(OPERATIONS, "console"):
            if not block.note:
                shell.run(block)


def test_the_roles_can_be_granted(dsn: str) -> None:
    for block in blocks(OPERATIONS, "sql"):
        psql(dsn, f"begin;\n{block.text}\nrollback;\n")


def test_the_unit_starts_the_ticker() -> None:
    (block,) = blocks(OPERATIONS, "ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd minds the case
    unit.read_string(block.text)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("pgqpy ticker run")
    given = dict(word.split("=", 1) for word in service["Environment"].split())
    assert set(given) <= VARIABLES.keys()


def test_the_settings_of_the_ticker_are_all_described() -> None:
    described = [name for cells in rows(OPERATIONS, "setting") for name in codes(cells[0])]
    assert sorted(described) == sorted(VARIABLES)
    for name, default, _ in rows(OPERATIONS, "setting"):
        field = VARIABLES[codes(name)[0]]
        if isinstance(field.default, float):
            assert codes(default) == [str(field.default)]


def test_the_advisory_locks_are_all_described() -> None:
    described = {lock for cells in rows(OPERATIONS, "lock") for lock in advisory_locks(cells[0])}
    sources = [f"{folder}/*.{kind}" for folder in SOURCES for kind in ("py", "sql")]
    texts = [(ROOT / name).read_text() for name in files(*sources)]
    written = {lock for source in texts for lock in advisory_locks(source)}
    assert described == written | {(locks.ENGINE, locks.SANDBOX)}
    assert {number for number, _ in described} == {
        locks.ENGINE,
        locks.CONSUMER,
        locks.QUEUE,
        locks.RUN,
        locks.SEQUENCE,
    }


def advisory_locks(source: str) -> set[tuple[int, int | None]]:
    """Return both keys of each lock that is named; None stands for a second key of any number."""
    found = re.findall(r"\b(73665\d\d), (?!73665)([^\s,)]+)", source)
    return {(int(first), int(key) if key.isdigit() else None) for first, key in found}


def test_the_sql_page_works(dsn: str) -> None:
    outputs = [psql(dsn, block.text) for block in blocks(SQL, "sql")]
    assert "placed" in outputs[0]


def test_the_sql_functions_are_there_for_the_role_that_is_named(connection: Any) -> None:
    for signature, _, role in rows(SQL, "function"):
        (function,) = re.findall(r"`(\w+)\(", signature)
        query = """
            select count(*) from pg_proc where proname = %s and pronamespace = 'pgq'::regnamespace
               and has_function_privilege(%s, oid, 'execute')
        """
        name = "public" if role == "everybody" else f"pgq_{role}"
        assert connection.execute(query, [function, name]).fetchone()[0] > 0, signature


def test_every_error_code_is_described_with_its_class() -> None:
    described = {code: name for code, name, _ in rows(SQL, "SQLSTATE")}
    ours = {code: kind.__name__ for code, kind in BY_SQLSTATE.items() if code.startswith("PQ")}
    assert described == ours


@pytest.mark.parametrize(("number", "names"), [(0, source_options.NAMES), (1, sink_options.NAMES)])
def test_the_options_of_spark_are_all_described(number: int, names: tuple[str, ...]) -> None:
    described = [name for cells in rows(SPARK, "option", number) for name in codes(cells[0])]
    assert sorted(described) == sorted(names)


def psql(dsn: str, script: str) -> str:
    """Run a script as psql does: each statement a transaction of its own."""
    program = [str(wheel_programs() / "psql"), "-X", "-v", "ON_ERROR_STOP=1", dsn]
    done = subprocess.run(program, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
