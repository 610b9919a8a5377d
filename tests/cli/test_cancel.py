"""``pgqpy event cancel`` and ``event skip``."""

from __future__ import annotations

import pgqpy
from tests.cli.support import Run, RunJson, failed_with


def test_what_happened_is_told_for_each_consumer(
    run: Run, run_json: RunJson, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    for consumer in ("billing", "mailer"):
        client.register_consumer("orders", consumer)
    ids = [client.insert_event("orders", "placed", data) for data in "ab"]
    told = run("event", "cancel", "orders", str(ids[0]), "99").stdout.splitlines()
    assert [line.split() for line in told] == [
        ["event", "consumer", "state"],
        ["1", "billing", "cancelled"],
        ["1", "mailer", "cancelled"],
        ["99", "billing", "unknown"],
        ["99", "mailer", "unknown"],
    ]
    (skipped,) = run_json("event", "skip", "orders", "mailer", str(ids[1]))
    assert skipped == {"id": ids[1], "consumer": "mailer", "state": "cancelled"}


def test_wrong_usage_is_told(run: Run, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    assert run("event", "cancel", "orders").exit_code == 2
    assert run("event", "skip", "orders", "billing").exit_code == 2
    failed_with(run("event", "cancel", "nope", "1"), 1, "nope")
    failed_with(run("event", "skip", "orders", "nobody", "1"), 1, "nobody")
