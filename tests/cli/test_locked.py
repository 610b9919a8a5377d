"""A command that only looks ends with a message while another session keeps a table locked."""

from __future__ import annotations

import psycopg
import pytest

from pgqpy.cli import options
from tests.cli.support import Run

LOOKS = (("doctor",), ("queue", "list"), ("ticker", "status"))


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_command_that_only_looks_says_that_a_table_is_locked(
    run: Run, dsn: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(options, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=20s")  # it fails rather than hangs
    with psycopg.connect(dsn) as locker:
        locker.execute("lock table pgq.queue in access exclusive mode")
        result = run(*command)
        assert result.exit_code == 1
        assert "pg_stat_activity" in result.stderr
        locker.rollback()
