"""The cases, in the order in which they run."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.report import Section

ORDER = (
    "insert",
    "capture",
    "queues",
    "bulk",
    "index",
    "consume",
    "receive",
    "keys",
    "sharing",
    "latency",
    "idle",
    "growth",
    "xmin",
    "rotation",
    "catch_up",
    "filter",
    "features",
    "dashboard",
    "spark",
)
# These run if they are named: half an hour is enough, and not all have Java.
ASKED_FOR = ("dashboard", "spark")


class Case(Protocol):
    """A module of this package."""

    TITLE: str

    def run(self, bench: Bench) -> Section:
        """Measure and verify; return the results."""
        ...


def names() -> list[str]:
    """Return the names of the cases."""
    return [name for name in ORDER if find_spec(f"benchmarks.cases.{name}")]


def usual() -> list[str]:
    """Return the names of the cases that run if none is named."""
    return [name for name in names() if name not in ASKED_FOR]


def load(name: str) -> Case:
    """Return a case."""
    return cast("Case", import_module(f"benchmarks.cases.{name}"))
