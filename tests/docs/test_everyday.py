"""The pages about single features: their commands and programs run, and print what they show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.docs.markdown import blocks
from tests.docs.test_docs import BY_HAND, psql
from tests.docs.transcript import Shell

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [
    "docs/archive.md",
    "docs/cancel.md",
    "docs/coming-from.md",
    "docs/cron.md",
    "docs/deduplicate.md",
    "docs/many-events.md",
    "docs/stalled.md",
    "docs/top.md",
    "docs/travel.md",
]
RUN = "run"
FILE = re.compile(r"\w+\.py")  # a program that a later block runs


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works(
    page: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in conninfo_to_dict(dsn).items():
        monkeypatch.setenv(f"PG{'DATABASE' if name == 'dbname' else name.upper()}", str(value))
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(page):
            if BY_HAND.fullmatch(block.note):
                continue
            if block.language == "console":
                shell.run(block)
            elif (block.language, block.note) == ("python", RUN):
                (tmp_path / "block.py").write_text(block.text)
                shell.run(block._replace(text="$ python block.py\n"))
            elif block.language == "python" and FILE.fullmatch(block.note):
                (tmp_path / block.note).write_text(block.text)
            elif (block.language, block.note) == ("sql", RUN):
                psql(dsn, block.text)
            else:
                pytest.fail(f"{page}:{block.line}: nothing runs this block")
