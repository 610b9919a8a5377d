"""The page about the dashboard: its commands run, and it names every option and page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy.cli.dashboard import run
from tests.docs.markdown import blocks, text
from tests.docs.test_docs import BY_HAND, psql
from tests.docs.transcript import Shell

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

PAGE = "docs/dashboard.md"


def test_the_commands_of_the_page_work(dsn: str, tmp_path: Path) -> None:
    with Shell(tmp_path, dsn) as shell:
        for block in blocks(PAGE, "console"):
            if not BY_HAND.fullmatch(block.note):
                shell.run(block)


def test_the_role_of_the_page_can_be_made(dsn: str, connection: psycopg.Connection) -> None:
    for block in blocks(PAGE, "sql"):
        psql(dsn, block.text)
    connection.execute("drop role dashboard")


@pytest.mark.parametrize("option", [param.opts[0] for param in run.params if param.opts])
def test_every_option_is_described(option: str) -> None:
    assert option in text(PAGE) or option == "--dsn"
