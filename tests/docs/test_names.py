"""Every command, option, function, attribute and setting that a page names exists."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
import pytest

import pgqpy
from pgqpy.cli.app import app
from pgqpy.consumers.settings import SETTINGS
from tests.docs.markdown import blocks, text
from tests.docs.test_pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

INLINE = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?<!manage\.py )\bpgqpy ([a-z][^|&;`#()]*)")
SETTING = re.compile(r"([a-z_]+) = \S.*")
CLASSES = {f"docs/{it}.md" for it in ("consumers", "consumers-reference", "sharing")}


def snippets(page: str) -> Iterator[str]:
    """Yield what stands in code marks in sentences and tables, and the commands of blocks."""
    prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(code.split()) for code in INLINE.findall(prose))
    for block in blocks(page, "console"):
        yield from (line for line in block.text.splitlines() if line.startswith("$ "))


def unknown(command: str) -> str | None:
    """Return the first word of a command line that pgqpy does not know."""
    found: click.Command = app
    for word in command.split():
        if isinstance(found, click.Group):
            inner = found.get_command(click.Context(found), word)
            if inner is None:
                return word
            found = inner
        elif word.startswith("--"):
            options = {name for it in found.params for name in (*it.opts, *it.secondary_opts)}
            if word.partition("=")[0].rstrip(".,:") not in options | {"--help"}:
                return word
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_name_exists(page: str) -> None:
    for code in snippets(page):
        for command in COMMAND.findall(code):
            assert unknown(command) is None, f"{unknown(command)} of pgqpy {command}"
        for name in re.findall(r"(?<!/)\bpgqpy\.(\w+)", code):
            assert hasattr(pgqpy, name) or find_spec(f"pgqpy.{name}"), code
        for name in re.findall(r"^client\.(\w+)", code):
            assert hasattr(pgqpy.Client, name), code
        if found := SETTING.fullmatch(code):
            assert found[1] in SETTINGS or page not in CLASSES, code
