"""What the README shows is what happens."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.docs.markdown import Block, blocks
from tests.docs.transcript import Shell
from tests.support.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

README = "README.md"
EXAMPLES = blocks(README, "python")


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.note)
def test_the_code_is_that_of_the_examples(block: Block) -> None:
    assert block.text == (ROOT / block.note).read_text(encoding="utf-8")


def test_the_tutorial_happens_as_it_is_written(empty_dsn: str, tmp_path: Path) -> None:
    for block in EXAMPLES:
        shutil.copy(ROOT / block.note, tmp_path)
    with Shell(tmp_path, empty_dsn) as shell:
        for block in blocks(README, "console"):
            if block.note == "tutorial":
                shell.run(block)


def test_every_guarantee_is_named() -> None:
    text = (ROOT / README).read_text(encoding="utf-8")
    assert all(f"| G{number} |" in text for number in range(1, 10))
