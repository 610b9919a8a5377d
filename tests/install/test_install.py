"""Every way to install the schema, any number of times, has the same result."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from pgqpy import install, manifest
from pgqpy.errors import SchemaRefused
from pgqpy.testing import EmbeddedServer
from tests.install.catalogue import catalogue
from tests.install.support import (
    REPOSITORY,
    Connect,
    Connection,
    at_once,
    make_release,
    psql,
    works,
)
from tests.support.waiting import eventually


def test_every_sql_file_is_ascii() -> None:
    # A server in another encoding than UTF8 could not take anything else.
    for file in (REPOSITORY / "schema").rglob("*.sql"):
        assert file.read_text(encoding="utf-8").isascii(), file


def test_owner_without_createrole_installs_once_an_administrator_made_the_roles(
    make_owner: Callable[[str], Connection], admin: Connection
) -> None:
    owner = make_owner("")
    with pytest.raises(SchemaRefused) as caught:
        install.install(owner)
    assert install.status(owner).state == "missing"
    assert owner.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    statements = str(caught.value).partition("an administrator runs: ")[2]
    for statement in statements.removesuffix("; then install again").split("; "):
        admin.execute(statement.encode())
    install.install(owner)
    assert works(owner)


def test_installing_again_keeps_queues_events_and_positions(admin: Connection) -> None:
    assert install.install(admin) == manifest.shipped_version()
    assert works(admin)
    admin.execute("select pgq.insert_event('q', 'type', 'later')")
    before = catalogue(admin)
    install.install(admin)
    assert catalogue(admin) == before
    finished = admin.execute("select pgq.finish_batch(pgq.next_batch('q', 'c'))")
    assert finished.fetchone() == (1,)
    admin.execute("select pgq.tick_queue('q')")
    rows = admin.execute(
        "select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)"
    ).fetchall()
    assert rows == [("later",)]


def test_two_sessions_install_at_once(
    cluster: EmbeddedServer,
    database: str,
    fresh_catalogue: list[str],
    admin: Connection,
    connect: Connect,
) -> None:
    assert at_once(connect(cluster.dsn(database)), connect(cluster.dsn(database))) == []
    assert catalogue(admin) == fresh_catalogue


def test_two_databases_are_installed_at_once(
    cluster: EmbeddedServer, database: str, other_database: str, admin: Connection, connect: Connect
) -> None:
    # The roles belong to the cluster, and neither lock nor snapshot of one database covers them.
    assert at_once(connect(cluster.dsn(database)), connect(cluster.dsn(other_database))) == []
    assert works(admin)


def test_second_installer_waits_for_the_first(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> None:
    second, watcher = connect(cluster.dsn(database)), connect(cluster.dsn(database))
    with admin.transaction():
        admin.execute("select pg_advisory_xact_lock(%s, %s)", install.LOCK)
        thread = threading.Thread(target=install.install, args=[second])
        thread.start()
        waiting = "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
        eventually(lambda: watcher.execute(waiting).fetchone() == (True,))
    thread.join()
    assert install.status(admin).state == "current"


def test_psql_reads_the_same_manifest(
    cluster: EmbeddedServer, database: str, admin: Connection, fresh_catalogue: list[str]
) -> None:
    """With ON_ERROR_ROLLBACK, psql puts a savepoint before each statement."""
    options = ("-v", "ON_ERROR_ROLLBACK=on")
    done = psql(cluster, database, *options, "-f", str(REPOSITORY / "schema" / "install.sql"))
    assert (done.returncode, done.stderr) == (0, "")
    assert catalogue(admin) == fresh_catalogue


def test_the_printed_file_is_one_for_psql(
    cluster: EmbeddedServer, database: str, admin: Connection, fresh_catalogue: list[str]
) -> None:
    done = psql(cluster, database, text=manifest.print_sql())
    assert (done.returncode, done.stderr) == (0, "")
    assert catalogue(admin) == fresh_catalogue


STEPS = (
    "alter table pgq.position add column made_up int",
    "create table pgq.made_up as select count(*) from pgq.position",
)


def test_numbered_steps_run_once_each_in_their_order_and_keep_ticks_and_positions(
    cluster: EmbeddedServer,
    other_database: str,
    admin: Connection,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = b"""
        select t.*, pos_sub, pos_no, pos_last_tick, pos_next_tick, pos_batch, pos_active
          from pgq.tick t cross join pgq.position order by tick_id, pos_no"""
    first = install.install(admin)
    assert works(admin)
    admin.execute("select pgq.tick_queue('q')")
    before = admin.execute(kept).fetchall()
    assert len(before) == 6
    make_release(monkeypatch, STEPS[0])
    assert install.status(admin).state == "old"
    assert install.install(admin) == first + 1
    make_release(monkeypatch, STEPS[1])
    assert install.install(admin) == install.install(admin) == first + 2
    assert admin.execute(kept).fetchall() == before
    fresh = connect(cluster.dsn(other_database))
    assert install.install(fresh) == first + 2
    assert works(fresh)
    fresh.execute("select pgq.tick_queue('q')")
    assert catalogue(admin) == catalogue(fresh)


def test_step_that_fails_leaves_the_version_before(
    admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = install.install(admin)
    before = catalogue(admin)
    make_release(monkeypatch, STEPS[0], "perform 1 / 0")
    with pytest.raises(install.InstallFailed, match="division by zero"):
        install.install(admin)
    assert (install.status(admin).installed, catalogue(admin)) == (version, before)


def test_schema_installs_whatever_the_databases_defaults(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> None:
    name = sql.Identifier(database)
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "standard_conforming_strings = on",
        "search_path = ''",
        "check_function_bodies = off",
        "datestyle = 'German'",
        "intervalstyle = 'iso_8601'",
    ):
        admin.execute(sql.SQL("alter database {} set ").format(name) + sql.SQL(setting))
    connection = connect(cluster.dsn(database))
    install.install(connection)
    connection.execute("set default_transaction_isolation = 'read committed'")
    assert works(connection)


def test_status_can_be_read_by_anybody(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> None:
    install.install(admin)
    admin.execute("create role test_guest login")
    found = install.status(connect(cluster.dsn(database, user="test_guest")))
    assert (found.state, found.missing_roles) == ("current", ())
