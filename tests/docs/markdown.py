"""The fenced blocks and the tables of a document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The version of the schema is the same in each run: a document that shows another one is stale.
NUMBER = re.compile(r"(?<!version )(?<!shipped )(?<!installed )(?<!\d)\d[\d,.]*(?: (?:ms|s)\b)?")
WHO = re.compile(r"(?<=\brole )\w+(?= may)")


class Block(NamedTuple):
    """One fenced block: ```language note, then the text."""

    document: str
    line: int
    language: str
    note: str
    text: str


def text(document: str) -> str:
    """Return a document's text, by its name from the root."""
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str | None = None) -> list[Block]:
    """Return a document's blocks in order, of one language or of all."""
    whole = text(document)
    found = [
        Block(document, whole.count("\n", 0, match.start()) + 1, *match.groups())
        for match in FENCE.finditer(whole)
    ]
    return [block for block in found if language in (None, block.language)]


def rows(document: str, first: str, number: int = 0) -> Iterator[list[str]]:
    """Yield the cells of the table whose first heading is `first`; of several, by its number."""
    lines = text(document).splitlines()
    begin = [n for n, line in enumerate(lines) if line.startswith(f"| {first} |")][number]
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def codes(cell: str) -> list[str]:
    """Return what stands in code marks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def shape(output: str) -> list[str]:
    """Return the lines without what differs from run to run: numbers, times, widths."""
    lines = (" ".join(line.replace("─", "").split()) for line in output.splitlines())
    return [WHO.sub("NAME", NUMBER.sub("N", line)) for line in lines if line]
