"""Each page happens as it is written: its blocks run from top to bottom, in a database of its own.

The word after the language of a block says what is done with it:

- `by-hand: why`: nothing.
- console: the commands run, and print what is shown. `spark`, `demo`: by tests of their own.
- python: `run` runs it; `FILE.py` is a file that a command runs; `examples/…` is that example;
  without a word it defines consumers.
- sql: psql runs it, `rolled-back` in a transaction that is rolled back.
- text: `output`: what the block before has printed.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgqpy.consumers.settings import BaseConsumer
from tests.docs.markdown import Block, blocks, text
from tests.docs.transcript import Shell, check
from tests.support.databases import new_database
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DOCUMENTS = [str(name) for name in files("*.md") if name.parts[0] != "tests"]
PAGES = [name for name in DOCUMENTS if name.startswith("docs/") or name == "README.md"]
TABLES = re.compile(r"^# .*(reference|Runbook|Metrics|SQL|Coming from)", re.MULTILINE)
GUIDE, README = 250, 200  # lines at most
WIDTH = 100  # columns of text, but for tables and pictures
BY_HAND = re.compile(r"by-hand: \S.+")
FILE = re.compile(r"[\w-]+\.(py|service)")
ELSEWHERE = {"spark", "demo"}  # test_spark.py, tests/demo
WITHOUT_SCHEMA = {"README.md", "docs/tutorial.md"}  # the reader installs it
GOES_ON = {"docs/cancel.md", "docs/cron.md", "docs/delay.md"}  # from the tutorial


def run(shell: Shell, folder: Path, page: str) -> None:
    """Run the blocks of a page."""
    printed = ""
    for block in blocks(page):
        if BY_HAND.fullmatch(block.note) or block.note in ELSEWHERE:
            continue
        if block.note.startswith("examples/"):
            assert block.text == text(block.note)
            shutil.copy(ROOT / block.note, folder)
        elif FILE.fullmatch(block.note):
            (folder / block.note).write_text(block.text)
        elif block.note == "output":
            check(f"{page}:{block.line}", block.text.splitlines(), printed)
        else:
            printed = RUNNERS[block.language, block.note](shell, block) or ""


def run_sql(shell: Shell, block: Block) -> str:
    return shell.psql(block.text)


def roll_back(shell: Shell, block: Block) -> str:
    return shell.psql(f"begin;\n{block.text}\nrollback;\n")


def assert_is_consumers(_shell: Shell, block: Block) -> None:
    module: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text, f"{block.document}:{block.line}", "exec"), module)
    classes = [value for value in module.values() if isinstance(value, type)]
    consumers = [kind for kind in classes if issubclass(kind, BaseConsumer)]
    assert [kind("") for kind in consumers if kind.__module__ == "block"]


RUNNERS: dict[tuple[str, str], Callable[[Shell, Block], str | None]] = {
    ("console", ""): Shell.run,
    ("python", ""): assert_is_consumers,
    ("python", "run"): Shell.program,
    ("sql", ""): run_sql,
    ("sql", "rolled-back"): roll_back,
}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_page_happens_as_it_is_written(
    page: str, server: Any, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_database(server, *([] if page in WITHOUT_SCHEMA else [template])) as name:
        dsn = server.dsn(name)
        for key, value in conninfo_to_dict(dsn).items():
            monkeypatch.setenv(f"PG{'DATABASE' if key == 'dbname' else key.upper()}", str(value))
        with Shell(tmp_path, dsn) as shell:
            if page in GOES_ON:
                shell.run(Block(page, 0, "console", "", "$ pgqpy queue create orders"))
            run(shell, tmp_path, page)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text(document)):
        place = (ROOT / document).parent / target if target else ROOT / document
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text()), f"{target}#{anchor}"


def anchors(page: str) -> list[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in headings]


def test_the_index_names_every_page() -> None:
    linked = {f"docs/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", text("docs/README.md"))}
    assert linked == {*PAGES} - {"README.md", "docs/README.md"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_its_subject_at_once_and_is_neither_long_nor_wide(page: str) -> None:
    lines = text(page).splitlines()
    shown = [number for number, line in enumerate(lines, 1) if line.startswith(("```", "|"))]
    assert shown[0] <= 15
    assert len(lines) <= (README if page == "README.md" else GUIDE) or TABLES.search(lines[0])
    prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL).splitlines()
    wide = [line for line in prose if len(line) > WIDTH and not line.startswith(("|", "!"))]
    assert wide == []


def test_every_guarantee_is_named() -> None:
    assert all(f"| G{number} |" in text("README.md") for number in range(1, 10))
