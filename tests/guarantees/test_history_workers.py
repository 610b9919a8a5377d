"""The checker for workers finds each kind of fault in a history made up for it, and no other."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.guarantees.history import Findings, Transaction
from tests.guarantees.history_workers import Fault, Handled, check_workers

DID = [Transaction(0, 0.5, "committed", ["a", "b"], [])]


def got(at: float, batch: int, data: str, retry: int = 0, *, raised: bool = False) -> Any:
    return Handled(at, "?", batch, data, retry, raised)


def judge(logs: dict[str, list[Handled]], *faults: Fault) -> Findings:
    named = [[each._replace(who=who) for each in log] for who, log in logs.items()]
    return check_workers(DID, named, list(faults))


BOTH = [got(1, 1, "a"), got(2, 1, "b")]
TWICE = {"7.0": BOTH, "8.0": [got(4, 2, "b")]}
GOOD: list[tuple[dict[str, list[Handled]], list[Fault]]] = [
    ({"7.0": BOTH}, []),
    ({"7.0": [got(1, 1, "a")], "8.0": [got(1, 2, "b")]}, []),
    ({"7.0": [got(1, 1, "a", raised=True), got(2, 1, "b"), got(3, 3, "a", 1)]}, []),
    (TWICE, [Fault("kill", "7.", 3)]),
    (TWICE, [Fault("terminate", "7.0", 1.5, 1.6)]),
    (TWICE, [Fault("stop", "8.", 3, 5)]),
    (TWICE, [Fault("crash", "", 3, 5)]),
    ({"7.0": [*BOTH, got(5, 1, "b")]}, [Fault("cancel", "7.0", 3, 4)]),
]
BAD: dict[str, tuple[str, dict[str, list[Handled]], list[Fault]]] = {
    "an event is missing": ("lost", {"7.0": BOTH[:1]}, [Fault("kill", "7.", 2)]),
    "a retry is missing": ("lost", {"7.0": [got(1, 1, "a", raised=True), *BOTH[1:]]}, []),
    "nobody inserted it": ("phantom", {"7.0": [*BOTH, got(3, 1, "c")]}, []),
    "nothing happened": ("twice", TWICE, []),
    "it happened to another one": ("twice", TWICE, [Fault("kill", "77.", 3)]),
    "it was another thread": ("twice", TWICE, [Fault("terminate", "7.1", 3, 4)]),
    "it was killed before": (
        "twice",
        {"7.0": [*BOTH, got(3, 3, "a"), got(4, 4, "b")]},
        [Fault("kill", "7.", 4.5)],
    ),
    "a third time": ("twice", {**TWICE, "9.0": [got(5, 3, "b")]}, [Fault("kill", "7.", 3)]),
    "a retry of nothing": ("twice", {"7.0": [*BOTH, got(5, 3, "b", 1)]}, []),
}


@pytest.mark.parametrize(("logs", "faults"), GOOD)
def test_good_history_is_good(logs: dict[str, list[Handled]], faults: list[Fault]) -> None:
    assert judge(logs, *faults) == Findings()


@pytest.mark.parametrize(("kind", "logs", "faults"), BAD.values(), ids=BAD.keys())
def test_fault_is_found(kind: str, logs: dict[str, list[Handled]], faults: list[Fault]) -> None:
    findings = asdict(judge(logs, *faults))
    assert {name for name, found in findings.items() if found} == {kind}
