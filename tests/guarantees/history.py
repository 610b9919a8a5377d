"""The history checker: what producers and a consumer wrote down outside the database, judged.

Each process appends lines of JSON to a file of its own, so nothing that happens to the server or
to the process takes back what was written.

Producers write for each transaction an intent, `{"at", "keep", "drop"}`: when it was begun (the
clock is monotonic and the machine's), the events it means to commit, and those that it means to
roll back to a savepoint; and after it `{"at", "outcome"}`: "committed", "aborted" or "unknown".
An intent without an outcome is unknown as well.

A delivery is a batch that a consumer has processed: its id and ticks, its events as
`[id, data, retry]`, the data it set aside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


UNKNOWN: dict[str, Any] = {"at": None, "outcome": "unknown"}


class Transaction(NamedTuple):
    """One transaction of a producer."""

    begun: float
    ended: float | None
    outcome: str
    keep: list[str]
    drop: list[str]


class Delivery(NamedTuple):
    """One time that a batch was processed."""

    batch: int
    prev: int
    tick: int
    events: list[list[Any]]
    retried: list[str]


@dataclass
class Findings:
    """What was wrong: events, batches or ticks by kind of fault."""

    lost: list[str] = field(default_factory=list)
    phantom: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    split: list[int] = field(default_factory=list)
    disorder: list[tuple[str, str]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)


def read_transactions(path: Path) -> list[Transaction]:
    """Read what a producer wrote."""
    transactions = []
    intent = None
    for line in [*read_lines(path), None]:
        if intent is not None:
            ended = line if line is not None and "outcome" in line else UNKNOWN
            times = intent["at"], ended["at"]
            transactions.append(
                Transaction(*times, ended["outcome"], intent["keep"], intent["drop"])
            )
        intent = line if line is not None and "keep" in line else None
    return transactions


def read_lines(path: Path) -> Iterable[dict[str, Any]]:
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def check(transactions: list[Transaction], deliveries: list[Delivery]) -> Findings:
    """Judge a history that has come to rest: everything was ticked, delivered and finished."""
    findings = Findings()
    batches = _same_batches(deliveries, findings)
    _check_chain(batches, findings)
    place = _check_deliveries(batches, findings)
    check_events(transactions, place, findings)
    check_order(transactions, place, findings)
    return findings


def _same_batches(deliveries: list[Delivery], findings: Findings) -> list[Delivery]:
    """Return each batch once; one delivered again has to be the same."""
    batches: list[Delivery] = []
    for delivery in deliveries:
        if batches and batches[-1].batch == delivery.batch:
            if batches[-1] != delivery:
                findings.split.append(delivery.batch)
        else:
            batches.append(delivery)
    return batches


def _check_chain(batches: list[Delivery], findings: Findings) -> None:
    for before, after in pairwise(batches):
        if after.prev != before.tick:
            findings.gaps.append((before.batch, after.batch))


def _check_deliveries(batches: list[Delivery], findings: Findings) -> dict[str, int]:
    """Find events given twice and retries that did not come; return each event's batch."""
    place: dict[str, int] = {}
    retried: set[str] = set()
    for number, batch in enumerate(batches):
        ids = [event[0] for event in batch.events]
        if ids != sorted(ids):
            findings.split.append(batch.batch)
        for _, data, retry in batch.events:
            if retry is not None and data in retried:
                retried.discard(data)
            elif data in place:
                findings.twice.append(data)
            place.setdefault(data, number)
        retried.update(batch.retried)
    findings.lost += sorted(retried)
    return place


def check_events(
    transactions: list[Transaction], place: dict[str, int], findings: Findings
) -> None:
    for transaction in transactions:
        found = [data for data in transaction.keep if data in place]
        findings.phantom += [data for data in transaction.drop if data in place]
        if transaction.outcome == "aborted":
            findings.phantom += found
        elif transaction.outcome == "committed" or found:  # of the unknown: all or nothing
            findings.lost += [data for data in transaction.keep if data not in place]
    known = {data for t in transactions for data in (*t.keep, *t.drop)}
    findings.phantom += [data for data in place if data not in known]


def check_order(transactions: list[Transaction], place: dict[str, int], findings: Findings) -> None:
    """Who had committed before another began must not be in a later batch (G4)."""
    steps: list[tuple[float, int, str, int]] = []
    for transaction in transactions:
        places = [place[data] for data in transaction.keep if data in place]
        if places and transaction.outcome == "committed" and transaction.ended is not None:
            steps.append((transaction.begun, 1, transaction.keep[0], min(places)))
            steps.append((transaction.ended, 0, transaction.keep[0], max(places)))
    latest, who = -1, ""
    for _, begins, data, number in sorted(steps):
        if begins and number < latest:
            findings.disorder.append((who, data))
        elif not begins and number > latest:
            latest, who = number, data
