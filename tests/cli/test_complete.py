"""What the shell completes arguments with."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from click.shell_completion import BashComplete

import pgqpy
from pgqpy.calls.admin import QUEUE_SETTINGS
from pgqpy.cli.app import app
from tests.cli.support import Connection

Complete = Callable[..., list[str]]
EXTRAS = ["extra1", "extra2", "extra3", "extra4"]


@pytest.fixture
def complete(client: pgqpy.Client, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """`complete("queue", "drop", "")` completes the last word: three queues, two consumers."""
    monkeypatch.setenv("PGQPY_DSN", dsn)
    for queue in ("orders", "other", "mails"):
        client.create_queue(queue)
    client.add_cron("report", "orders", "build", schedule="@daily")
    client.register_consumer("orders", "billing")
    client.register_consumer("orders", "billing$(touch${IFS}run)")  # a command to the shell
    client.register_consumer("mails", "sending")
    return completed


def completed(*words: str) -> list[str]:
    shell = BashComplete(app, {}, "pgqpy", "_PGQPY_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


COMPLETED = [
    (["queue", "drop", ""], ["mails", "orders", "other"]),
    (["queue", "show", "o"], ["orders", "other"]),
    (["queue", "create", ""], []),
    (["event", "list", "--newest", "m"], ["mails"]),
    (["consumer", "list", "or"], ["orders"]),
    (["consumer", "register", "orders", ""], []),
    (["consumer", "register", "orders", "x", "--extra", "extra2"], ["extra2="]),
    (["consumer", "show", "orders", ""], ["billing"]),
    (["consumer", "unregister", "mails", ""], ["sending"]),
    (["consumer", "set", "orders", ""], ["billing"]),
    (["consumer", "set", "orders", "billing", "extra"], [f"{each}=" for each in EXTRAS]),
    (["event", "list", "orders", "dead", "b"], ["billing"]),
    (["event", "list", "nope", "dead", ""], []),
    (["event", "list", "orders", "de"], ["dead", "delayed"]),
    (["pipeline", "run", "--queue", "m"], ["mails"]),
    (["pipeline", "run", "--queue", "orders", "--consumer", ""], ["billing"]),
    (["archive", "run", "--queue", "mails", "--consumer", ""], ["sending"]),
    (["archive", "list", "lake", "--queue", "o"], ["orders", "other"]),
    (["cron", "set", ""], ["report"]),
    (["cron", "add", "new", "m"], ["mails"]),
    (["schema", "repair", "orders", "ot"], ["other"]),
    (["queue", "set", "orders", "ticker_max"], ["ticker_max_count=", "ticker_max_lag="]),
    (["queue", "create", "new", "--set", "nt"], ["ntables="]),
    (["consumer", "run", "a:B", "--set", "max_r"], ["max_retries="]),
    (["consumer", "run", "a:B", "--set", "ma"], ["max_retries="]),
]


def test_arguments_are_completed(complete: Complete) -> None:
    for words, names in COMPLETED:
        assert complete(*words) == names


def test_the_database_may_stand_on_the_command_line(
    complete: Complete, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGQPY_DSN")
    assert complete("--dsn", dsn, "queue", "drop", "m") == ["mails"]
    assert complete("queue", "drop", "--dsn", dsn, "m") == ["mails"]


@pytest.mark.parametrize("dsn", ["host=/nowhere", "nonsense", "postgresql://u:p@[::1"])
def test_without_a_database_nothing_is_completed_and_nothing_said(
    dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert completed("--dsn", dsn, "queue", "drop", "") == []
    assert completed("--dsn", dsn, "consumer", "show", "orders", "") == []
    assert capfd.readouterr() == ("", "")


def test_every_setting_of_a_queue_is_completed(connection: Connection) -> None:
    (source,) = connection.execute(
        "select prosrc from pg_proc where proname = 'set_queue_config'"
    ).fetchone() or ("",)
    known = re.search(r"v_known constant text\[\] := array\[([^\]]+)\]", source)
    assert known
    assert sorted(QUEUE_SETTINGS) == sorted(re.findall(r"'(\w+)'", known[1]))
