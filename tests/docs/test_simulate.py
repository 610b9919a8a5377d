"""The page of the simulation: its commands run, its options are the command's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.cli.simulate import simulate
from tests.docs.markdown import blocks, codes, rows
from tests.docs.transcript import Shell

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "docs/simulate.md"


def test_the_page_works(tmp_path: Path) -> None:
    with Shell(tmp_path, "host=/nowhere") as shell:
        for block in blocks(PAGE, "console"):
            if not block.note:
                shell.run(block)


def test_the_options_are_all_described() -> None:
    described = {name for cells in rows(PAGE, "option") for name in codes(cells[0])}
    known = {name for it in simulate.params for name in (*it.opts, *it.secondary_opts)}
    assert described == known
