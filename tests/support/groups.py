"""Which tests share an xdist process: all that need Spark, which takes ten seconds to start.

xdist has a mark for that (xdist_group), but it renames tests, which pytest 9.2 does not let it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tree import ROOT

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

NEEDS_SPARK = re.compile(r"^def \w+\([^)]*\bspark\b", re.MULTILINE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Hand out tests one by one, but those with the fixture `spark` to one process."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        """A group is a unit of work; every other test is one by itself."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


def group_of(nodeid: str) -> str:
    """Return the name of a test's group; its own if it needs no session."""
    module = nodeid.partition("::")[0]
    return "spark" if _needs_spark(module) else nodeid


@cache
def _needs_spark(module: str) -> bool:
    return bool(NEEDS_SPARK.search((ROOT / module).read_text(encoding="utf-8")))
