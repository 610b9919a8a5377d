"""What the README shows is what happens."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.markdown import Block, blocks, shape
from tests.docs.transcript import Shell, steps
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


def test_the_demo_prints_what_is_shown(spawn: Any) -> None:
    (block,) = (block for block in blocks(README, "console") if block.note == "demo")
    (step,) = steps(block)
    assert step.command == "make demo"
    assert step.shown.pop() == "make demo: passed"  # make's own line
    process = spawn("-m", "pgqpy", "demo", "--seconds", "6", env={"PGQPY_DSN": ""})
    assert process.wait(110) == 0, process.output()
    assert without_repetition(shape(process.output())) == without_repetition(
        shape("\n".join(step.shown))
    )


def without_repetition(lines: list[str]) -> list[str]:
    """Keep the first of lines that are alike: how many there are depends on the seconds."""
    return list(dict.fromkeys(lines))


def test_every_guarantee_is_named() -> None:
    text = (ROOT / README).read_text(encoding="utf-8")
    assert all(f"| G{number} |" in text for number in range(1, 10))
