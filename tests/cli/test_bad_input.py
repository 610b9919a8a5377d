"""Every kind of bad input gives one clear line and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import SchemaMissing, manifest
from pgqpy.cli import failures
from pgqpy.sqlstates import FUNCTION_MISSING
from pgqpy.testing import EmbeddedServer
from tests.cli.support import Connection, Login, Run, RunJson, failed_with

SECRET = "s3cret-hunter2"


@pytest.mark.parametrize(
    "command",
    [
        ["queue", "show", "nope"],
        ["consumer", "register", "nope", "billing"],
        ["event", "insert", "nope", "type", "data"],
        ["event", "insert", "nope", "--file", "-"],
        ["consumer", "unregister", "nope", "billing"],
        ["event", "list", "nope"],
        ["event", "list", "nope", "dead", "billing"],
        ["event", "retry", "nope", "billing", "--all"],
        ["schema", "repair", "nope"],
        ["archive", "run", "--queue", "nope", "--to", "."],
        ["archive", "replay", "nope", "billing", "--from", "."],
        ["event", "list", "nope", "--archive", "."],
    ],
)
def test_an_unknown_queue_has_one_message_in_every_command(run: Run, command: list[str]) -> None:
    told = (
        "error: no queue 'nope' in this database; pgqpy queue list shows the queues, "
        "pgqpy queue create adds one"
    )
    assert failed_with(run(*command), 1, told)


@pytest.mark.parametrize(
    "command",
    [
        ["consumer", "show", "orders", "nope"],
        ["consumer", "unregister", "orders", "nope"],
        ["event", "list", "orders", "dead", "nope"],
        ["event", "retry", "orders", "nope", "--all"],
    ],
)
def test_an_unknown_consumer_has_one_message_in_every_command(run: Run, command: list[str]) -> None:
    run("queue", "create", "orders")
    told = "error: consumer 'nope' is not registered on queue 'orders'; pgqpy consumer list"
    assert failed_with(run(*command), 1, told)


BAD_NAMES = {
    "empty": ("", "empty"),
    "too many octets": ("é" * 32, "octets"),
    "control character": ("a\nb", "control character"),
    "lone surrogate": ("a\udcff", "surrogate"),
}


@pytest.mark.parametrize(("name", "word"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_bad_name(run: Run, run_json: RunJson, name: str, word: str) -> None:
    assert failed_with(run("queue", "create", name), 1, word)
    run("queue", "create", "orders")
    long_name = name * 20 if word == "octets" else name
    assert failed_with(run("consumer", "register", "orders", long_name), 1, word)
    assert run_json("consumer", "list") == []


@pytest.mark.parametrize(
    ("payload", "word"),
    [(b"a\0b", "NUL"), (b"\xff", "UTF-8")],
    ids=["NUL", "not UTF-8"],
)
def test_bad_payload(run: Run, run_json: RunJson, payload: bytes, word: str) -> None:
    run("queue", "create", "orders")
    result = run("event", "insert", "orders", "type", "-", input=payload)
    assert failed_with(result, 1, word)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("setting", "bounds"),
    [
        ("ticker_max_count=99999999999", "from 1 to 2147483647"),
        ("ticker_max_lag=-1 s", "from 0 to 100 years"),
        ("ticker_idle_period=soon", "from 0 to 100 years"),
        ("ticker_paused=perhaps", "boolean"),
        ("per_tx_limit=-1", "from 0 to 2147483647"),
        ("ntables=1", "from 3"),
    ],
)
def test_a_setting_out_of_bounds_is_refused_with_the_bounds(
    run: Run, run_json: RunJson, setting: str, bounds: str
) -> None:
    run("queue", "create", "orders")
    before = run_json("queue", "show", "orders")
    name = setting.partition("=")[0]
    assert failed_with(run("queue", "set", "orders", setting), 1, name, bounds)
    after = run_json("queue", "show", "orders")
    assert {**after, "ticker_lag": None} == {**before, "ticker_lag": None}


WRONG_DSNS = [
    f"postgresql://user:{SECRET}@host:port/db",
    f"postgresql://user:{SECRET}@[::1/db",
    f"postgresql://user:{SECRET[:4]}@{SECRET[4:]}@host/db",
    f"host=localhost passwort={SECRET}",
    f"localhost {SECRET}",
    f"password='{SECRET}",
]


@pytest.mark.parametrize("dsn", WRONG_DSNS)
def test_wrong_dsn_is_refused_without_printing_it(bare_run: Run, dsn: str) -> None:
    result = bare_run("--dsn", dsn, "queue", "list")
    assert failed_with(result, 2, "DSN", "postgresql://")
    assert_nowhere(SECRET, result.output)


@pytest.mark.parametrize("command", ["run", "status"])
@pytest.mark.parametrize("place", ["--dsn", "PGQPY_DSN", "PGQPY_DSNS"])
@pytest.mark.parametrize("dsn", WRONG_DSNS[:2])
def test_wrong_dsn_of_the_ticker_is_refused_without_printing_it(
    bare_run: Run, monkeypatch: pytest.MonkeyPatch, dsn: str, place: str, command: str
) -> None:
    option = ["--dsn", dsn] if place == "--dsn" else []
    if not option:
        monkeypatch.setenv(place, json.dumps([dsn]) if place == "PGQPY_DSNS" else dsn)
    result = bare_run("ticker", command, *option)
    assert (result.exit_code, "postgresql://user@host" in result.stderr) == (2, True)
    assert len(result.stderr.splitlines()) == 1
    assert_nowhere(SECRET, result.output)


@pytest.mark.parametrize("place", ["before", "after", "environment"])
def test_the_dsn_may_stand_before_or_after_the_command_or_in_the_environment(
    bare_run: Run, monkeypatch: pytest.MonkeyPatch, empty_dsn: str, place: str
) -> None:
    if place == "environment":
        monkeypatch.setenv("PGQPY_DSN", empty_dsn)
    option = ["--dsn", empty_dsn]
    before, after = (option if place == word else [] for word in ("before", "after"))
    result = bare_run(*before, "schema", "status", *after)
    assert "missing" in result.stdout


def test_libpqs_own_variables_name_the_database(
    bare_run: Run, monkeypatch: pytest.MonkeyPatch, empty_dsn: str
) -> None:
    for name, value in psycopg.conninfo.conninfo_to_dict(empty_dsn).items():
        variable = {"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}")
        monkeypatch.setenv(variable, str(value))
    assert "missing" in bare_run("schema", "status").stdout


def test_no_server(bare_run: Run, tmp_path: Path) -> None:
    result = bare_run("--dsn", f"host={tmp_path} password={SECRET}", "queue", "list")
    assert failed_with(result, 1, "cannot connect", "check")
    assert_nowhere(SECRET, result.output)


def test_wrong_password(bare_run: Run, own_server: EmbeddedServer) -> None:
    dsn = make_conninfo(own_server.tcp_dsn(), password=SECRET)
    result = bare_run("--dsn", dsn, "queue", "list")
    assert failed_with(result, 1, "cannot connect", "password authentication failed")
    assert_nowhere(SECRET, result.output)
    assert_nowhere(own_server.password, result.output)


@pytest.mark.parametrize(
    "command", ["queue list", "queue create orders", "schema uninstall", "schema status", "doctor"]
)
def test_a_missing_schema_has_one_wording(bare_run: Run, empty_dsn: str, command: str) -> None:
    result = bare_run("--dsn", empty_dsn, *command.split())
    assert result.exit_code == 1
    told = "schema pgq is not installed in this database; run pgqpy schema install\n"
    assert result.output.endswith(told)


def test_a_schema_without_a_function_is_told_once_what_to_do() -> None:
    text = FUNCTION_MISSING.format("get_history")
    assert failures.explain(SchemaMissing(text)) == text


def test_what_the_extension_lacks_comes_without_advice_to_install(
    client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.runner, "is_extension", lambda: True)
    with pytest.raises(SchemaMissing) as caught:
        client.runner.require_pgqpy("get_history")
    told = "the extension pgq in this database lacks get_history: pgqpy's schema has it"
    assert failures.explain(caught.value) == str(caught.value) == told


def test_newer_schema_is_not_installed_over(run: Run, connection: Connection) -> None:
    connection.execute("update pgq.installation set version = version + 1")
    newer = str(manifest.shipped_version() + 1)
    try:
        assert failed_with(run("schema", "install"), 1, newer, "pip install --upgrade pgqpy")
    finally:
        connection.execute("update pgq.installation set version = version - 1")


def test_missing_right(run: Run, dsn: str, login: Login) -> None:
    run("queue", "create", "orders")
    guest = make_conninfo(dsn, user=login())
    result = run("--dsn", guest, "event", "insert", "orders", "type", "data")
    assert failed_with(result, 1, "permission denied", "pgq_writer")


def test_a_dsn_in_the_wrong_place_does_not_show_its_password(bare_run: Run) -> None:
    result = bare_run("queue", "list", f"postgresql://user:{SECRET}@host/db")
    assert failed_with(result, 2, "--help")
    assert_nowhere(SECRET, result.output)


def assert_nowhere(secret: str, output: str) -> None:
    assert secret not in output
    assert secret[4:] not in output


@pytest.mark.parametrize(
    "command",
    ["queue create orders", "schema install", "consumer register orders c"],
)
def test_a_read_only_default_is_named_with_what_to_change(run: Run, dsn: str, command: str) -> None:
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    result = run(*command.split(), "--dsn", read_only)
    assert failed_with(result, 1, "set default_transaction_read_only = off", "primary")
