"""`pgqpy consumer run` behind a pooler that shares sessions."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Module, Start
from tests.cli.test_consumer_workers import BILLING
from tests.support import poolers
from tests.support.poolers import pgbouncer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pgqpy

pytestmark = pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)


@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_processes_of_a_shared_consumer_run_behind_a_pool_in_transaction_mode(
    module: Module,
    start: Start,
    client: pgqpy.Client,
    tmp_path: Path,
    options: list[str],
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing", shared=True)
    client.insert_event("orders", "placed", "one")
    with pgbouncer(client.connection.info.dsn, "transaction") as pooled:
        place = module(BILLING) + ":Billing"
        process = start(place, "--dsn", pooled, "--set", "lease=30", *options)
        handled = tmp_path / "handled"
        eventually(lambda: handled.exists() and handled.read_text().endswith(" one\n"))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert "could not tell" not in log
