"""The doctor run by a role without the rights for a check, and on PGQ's extension."""

from __future__ import annotations

import json

import psycopg
from psycopg.conninfo import make_conninfo

import pgqpy
from tests.cli.support import Connection, Login, Run


def skipped(bare_run: Run, dsn: str) -> dict[str, str]:
    """Return the checks that the doctor skipped, and what it said of each."""
    found = json.loads(bare_run("--dsn", dsn, "doctor", "--json").stdout)
    refused = ("may not", "permission denied", "not looked at", "cannot see")
    quiet = [
        each
        for each in found
        if each["level"] == "ok" and any(words in each["what"] for words in refused)
    ]
    assert quiet == []
    return {
        each["check"]: f"{each['what']}; {each['remedy']}"
        for each in found
        if each["level"] == "skipped"
    }


def test_what_the_role_may_not_look_at_is_skipped_and_the_named_roles_skip_nothing(
    bare_run: Run, dsn: str, connection: Connection, login: Login
) -> None:
    name = login()
    visitor = make_conninfo(dsn, user=name)
    connection.execute(f"grant pgq_dashboard to {name}".encode())
    assert "may look (pgq_dashboard), and no more" in bare_run("--dsn", visitor, "doctor").stdout
    connection.execute(f"grant pgq_writer to {name}".encode())
    told = skipped(bare_run, visitor)
    assert set(told) == {"stage", "retry", "inflight", "transaction"}
    assert f'grant pgq_admin to "{name}"' in told["stage"]
    assert f'grant pg_read_all_stats to "{name}"' in told["transaction"]
    connection.execute(f"grant pgq_admin, pg_read_all_stats to {name}".encode())
    assert skipped(bare_run, visitor) == {}


def test_the_doctor_fails_nothing_that_the_extension_supports(
    bare_run: Run, extension_dsn: str
) -> None:
    with pgqpy.connect(extension_dsn) as client, psycopg.connect(extension_dsn) as connection:
        client.create_queue("orders")
        client.register_consumer("orders", "billing")
        client.insert_event("orders", "type", "data")
        client.force_tick("orders")
        connection.execute("select pgq.ticker()")
        connection.commit()
    result = bare_run("--dsn", extension_dsn, "doctor")
    assert result.exit_code == 0, result.stdout
    assert "the extension pgq 3.5" in result.stdout
    assert "fail" not in [line.split()[0] for line in result.stdout.splitlines()]
    assert "pgqpy ticker run" not in result.stdout
