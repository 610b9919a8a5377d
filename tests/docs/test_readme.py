"""What the README shows is what happens."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.docs.markdown import FENCE, Block, blocks, text
from tests.docs.transcript import Shell
from tests.support.tree import ROOT, files

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
        for command in commands_in_sentences():
            shell.run(Block(README, 0, "console", "", f"$ {command}"))


def commands_in_sentences() -> list[str]:
    """Return the commands outside of blocks, but for those that run until they are stopped."""
    sentences = FENCE.sub("", text(README))
    found = [" ".join(code.split()) for code in re.findall(r"`(pgqpy [^`]+)`", sentences)]
    return [command for command in found if " run" not in command]


def test_every_page_of_the_docs_is_in_the_list_of_more() -> None:
    (more,) = re.findall(r"^\*\*More\*\*.*?\n\n## ", text(README), re.MULTILINE | re.DOTALL)
    pages = {name.as_posix() for name in files("docs/*.md")}
    assert set(re.findall(r"\]\((docs/[^)#]+)\)", more)) == pages


def test_every_guarantee_is_named() -> None:
    assert all(f"| G{number} |" in text(README) for number in range(1, 10))
