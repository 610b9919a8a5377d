"""Which tests begin first, and which share an xdist process.

Those of a process share something that takes seconds to make.

xdist has a mark for that (xdist_group), but it renames tests, which pytest 9.2 does not let it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tree import ROOT
from tests.support.twins import leave_twins_out

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

NEEDS_SPARK = re.compile(r"^def \w+\([^)]*\bspark\b", re.MULTILINE)
# They take many seconds each. As one of the last tests, each would let the other processes wait.
LONG = (
    "tests/demo/",
    "tests/docs/",
    "tests/guarantees/test_faults_",
    "tests/guarantees/test_machine.py",
    "tests/simulate/test_simulate.py",
)
NEEDS_EXTENSION = re.compile(r"\bdef (\w+)\([^)]*\bextension_dsn\b")  # a test or a fixture


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Let long tests begin first; all others stay in their random order."""
    leave_twins_out(items, config)
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Hand out tests one by one, but those of a group to one process."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        """A group is a unit of work; every other test is one by itself."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


def group_of(nodeid: str) -> str:
    """Return the name of a test's group; its own if it shares nothing.

    Spark is a group, the server with the extension pgq is one, and each module with a fixture
    for the whole module.
    """
    module, _, test = nodeid.partition("::")
    text = _text(module)
    if NEEDS_SPARK.search(text):
        return "spark"
    users = NEEDS_EXTENSION.findall(text)
    if test.partition("[")[0] in users or any(not name.startswith("test_") for name in users):
        return "extension"
    return module if 'scope="module"' in text else nodeid


@cache
def _text(module: str) -> str:
    return (ROOT / module).read_text(encoding="utf-8")
