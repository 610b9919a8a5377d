from __future__ import annotations

import json

import pytest
from psycopg.conninfo import make_conninfo

from pgqpy import manifest
from tests.cli.support import Connection, Login, Run, failed_with

RESTORED = """
    update pgq.tick set tick_snapshot = '9000000000:9000000000:' from pgq.queue
     where tick_queue = queue_id and queue_name = 'restored'
"""


def test_install_status_and_uninstall(
    bare_run: Run, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGQPY_DSN", empty_dsn)
    version = manifest.shipped_version()
    before = bare_run("schema", "status")
    assert (before.exit_code, "pgqpy schema install" in before.stderr) == (1, True)
    for _ in range(2):
        installed = bare_run("schema", "install")
        assert installed.exit_code == 0
        assert installed.stderr == f"schema pgq is at version {version}\n"
    status = bare_run("schema", "status", "--json")
    assert status.exit_code == 0
    assert json.loads(status.stdout)["installed"] == version
    bare_run("queue", "create", "orders")
    assert failed_with(bare_run("schema", "uninstall"), 1, "1 queue", "force")
    gone = bare_run("schema", "uninstall", "--force")
    assert (gone.exit_code, "pgq_reader" in gone.stderr) == (0, True)
    assert bare_run("schema", "status").exit_code == 1


def test_print_prints_what_psql_takes(bare_run: Run) -> None:
    printed = bare_run("schema", "print")
    assert printed.exit_code == 0
    assert printed.stdout == manifest.print_sql()


def test_old_schema_is_reported_with_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgqpy.install.shipped_version", lambda: manifest.INITIAL + 1)
    status = run("schema", "status")
    assert (status.exit_code, "pgqpy schema install" in status.stderr) == (1, True)
    doctor = run("doctor")
    assert (doctor.exit_code, "pgqpy schema install" in doctor.stdout) == (1, True)


def test_repair_of_one_queue_may_fail_and_says_so(
    run: Run, dsn: str, connection: Connection, login: Login
) -> None:
    run("queue", "create", "restored")
    connection.execute(RESTORED)
    result = run("schema", "repair", "--dsn", make_conninfo(dsn, user=login("pgq_ticker")))
    assert failed_with(result, 1, "queue restored is not repaired", "permission denied")


def test_repair_warns_of_ids_that_stand_twice(run: Run, connection: Connection) -> None:
    run("queue", "create", "copied")
    for _ in range(2):
        run("event", "insert", "copied", "type", "data")
        connection.execute("select setval(queue_event_seq, 1, false) from pgq.queue")
    connection.execute("update pgq.queue set queue_system_id = 1")
    repaired = run("schema", "repair")
    warning = "warning: queue copied: events with ids from 1 to 1 may be there twice\n"
    detail = (
        "They were inserted into this copy of the database while its sequence of events was "
        "behind. Consumers may not get them.\n"
    )
    assert repaired.stderr == f"{warning}{detail}repaired queue copied: 2 event(s) kept\n"


@pytest.mark.parametrize("setting", ["ticker_paused", "external_ticker"])
def test_repair_finds_a_queue_that_no_ticker_ticks(
    run: Run, connection: Connection, setting: str
) -> None:
    run("queue", "create", "fine")
    run("queue", "create", "restored")
    for queue in ("fine", "restored"):
        run("queue", "set", queue, f"{setting}=true")
    connection.execute(RESTORED)
    assert run("schema", "repair").stderr == "repaired queue restored: 0 event(s) kept\n"
    assert run("schema", "repair").stderr == "no queue needs a repair\n"
    kept = f"select queue_{setting} from pgq.queue where queue_name in ('fine', 'restored')"
    assert connection.execute(kept.encode()).fetchall() == [(True,), (True,)]


def test_repair_of_all_goes_on_behind_a_queue_that_cannot_be_ticked(
    run: Run, connection: Connection
) -> None:
    run("queue", "create", "last number")
    run("queue", "set", "last number", "external_ticker=true")
    connection.execute("select pgq.ticker('last number', 1::bigint << 62, now(), 1)")
    assert "no queue needs a repair" not in run("schema", "repair").stderr
    run("queue", "create", "restored")
    connection.execute(RESTORED)
    result = run("schema", "repair")
    assert result.exit_code == 1
    assert "queue last number cannot be ticked" in result.stderr
    assert "repaired queue restored" in result.stderr


def test_doctor_warns_of_a_queue_that_has_not_ticked_since_it_was_restored(
    run: Run, connection: Connection
) -> None:
    run("queue", "create", "restored")
    connection.execute("update pgq.checked set checked_xmin = 1")
    found = run("doctor").stdout
    assert "queue restored was restored, and has not ticked" in found
    assert "pgqpy schema repair restored" in found
    connection.execute("select pgq.tick_queue('restored')")
    assert "was restored" not in run("doctor").stdout


def test_doctor_names_a_queue_whose_older_ticks_refuse_its_second_one(
    run: Run, connection: Connection
) -> None:
    run("queue", "create", "restored")
    # As where a tick comes in the middle of a restore, which brings an older one behind it.
    connection.execute(RESTORED)
    connection.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_snapshot, tick_event_seq)"
        " select tick_queue, nextval(queue_tick_seq), txid_current_snapshot(), tick_event_seq"
        " from pgq.tick join pgq.queue on queue_id = tick_queue"
    )
    connection.execute("delete from pgq.checked where checked_number = 2")
    doctor = run("doctor")
    assert doctor.exit_code == 1
    assert "restored comes from a cluster with larger" in doctor.stdout
    assert run("schema", "repair").stderr == "repaired queue restored: 0 event(s) kept\n"
    connection.execute("select pgq.tick_queue('restored')")
    assert "larger transaction ids" not in run("doctor").stdout


def test_repair_mends_the_queues_that_refuse_to_tick(run: Run, connection: Connection) -> None:
    for queue in ("fine", "restored"):
        run("queue", "create", queue)
        run("consumer", "register", queue, "billing")
        run("event", "insert", queue, "type", queue)
    # As after a restore: the last tick is from a cluster with larger transaction ids.
    connection.execute(RESTORED)
    doctor = run("doctor")
    assert (doctor.exit_code, "pgqpy schema repair" in doctor.stdout) == (1, True)
    repaired = run("schema", "repair")
    assert repaired.exit_code == 0
    assert repaired.stderr == "repaired queue restored: 1 event(s) kept\n"
    assert run("schema", "repair").stderr == "no queue needs a repair\n"
    ticks = connection.execute("select count(*) from pgq.tick").fetchone()
    assert ticks == (2,), "looking for damage left a tick behind"
    connection.execute("select pgq.tick_queue('restored')")
    batch = "select ev_data from pgq.next_batch('restored', 'billing') b, pgq.get_batch_events(b)"
    assert connection.execute(batch).fetchall() == [("restored",)]
