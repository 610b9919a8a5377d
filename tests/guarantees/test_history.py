"""The history checker finds each kind of fault in a history made up for it, and no other."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.history import (
    Delivery,
    Findings,
    Transaction,
    check,
    read_transactions,
)

if TYPE_CHECKING:
    from pathlib import Path


def did(begun: float, *keep: str, outcome: str = "committed", drop: tuple[str, ...] = ()) -> Any:
    return Transaction(begun, begun + 0.5, outcome, list(keep), list(drop))


def got(batch: int, *events: tuple[int, str], retried: tuple[str, ...] = (), **more: Any) -> Any:
    listed = [
        [number, data.removesuffix(" again"), 1 if "again" in data else None]
        for number, data in events
    ]
    return Delivery(batch, more.get("prev", batch - 1), batch, listed, list(retried))


GOOD = [
    ([did(1, "a"), did(2, "b")], [got(1, (1, "a")), got(2), got(3, (2, "b"))]),
    ([did(1, "a")], [got(1, (1, "a")), got(1, (1, "a")), got(2)]),
    ([did(1, "a", outcome="unknown")], [got(1)]),
    ([did(1, "a", outcome="unknown")], [got(1, (1, "a"))]),
    ([did(1, "a", outcome="aborted", drop=("b",))], [got(1)]),
    ([did(1, "a")], [got(1, (1, "a"), retried=("a",)), got(2, (1, "a again"))]),
    ([did(2, "b"), did(1.9, "a")], [got(1, (1, "b")), got(2, (2, "a"))]),  # they overlap
]
BAD = {
    "an event is missing": ("lost", [did(1, "a", "b")], [got(1, (1, "a"))]),
    "a retry is missing": ("lost", [did(1, "a")], [got(1, (1, "a"), retried=("a",)), got(2)]),
    "half of it came": ("lost", [did(1, "a", "b", outcome="unknown")], [got(1, (1, "a"))]),
    "it was rolled back": ("phantom", [did(1, "a", outcome="aborted")], [got(1, (1, "a"))]),
    "to a savepoint": ("phantom", [did(1, drop=("a",))], [got(1, (1, "a"))]),
    "nobody inserted it": ("phantom", [], [got(1, (1, "a"))]),
    "in two batches": ("twice", [did(1, "a")], [got(1, (1, "a")), got(2, (1, "a"))]),
    "twice in one": ("twice", [did(1, "a")], [got(1, (1, "a"), (1, "a"))]),
    "more the second time": (
        "split",
        [did(1, "a"), did(1, "b")],
        [got(1, (1, "a"), (2, "b")), got(1, (1, "a"))],
    ),
    "ids go down": ("split", [did(1, "a", "b")], [got(1, (2, "b"), (1, "a"))]),
    "a tick is missing": ("gaps", [], [got(1), got(3)]),
    "the later one came first": (
        "disorder",
        [did(1, "a"), did(2, "b")],
        [got(1, (2, "b")), got(2, (1, "a"))],
    ),
}


@pytest.mark.parametrize(("transactions", "deliveries"), GOOD)
def test_good_history_is_good(transactions: list[Any], deliveries: list[Any]) -> None:
    assert check(transactions, deliveries) == Findings()


@pytest.mark.parametrize(("kind", "transactions", "deliveries"), BAD.values(), ids=BAD.keys())
def test_fault_is_found(kind: str, transactions: list[Any], deliveries: list[Any]) -> None:
    findings = asdict(check(transactions, deliveries))
    assert {name for name, found in findings.items() if found} == {kind}


def test_intent_without_an_outcome_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    intent = {"at": 1.0, "keep": ["a"], "drop": []}
    end = {"at": 1.5, "outcome": "committed"}
    lines = [intent, end, intent, intent, end, intent]
    cut_short = json.dumps(intent)[:20]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut_short)
    outcomes = [transaction.outcome for transaction in read_transactions(path)]
    assert outcomes == ["committed", "unknown", "committed", "unknown"]
