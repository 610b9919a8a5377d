"""The schema goes in by any way, any number of times, and comes out the same."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgqpy import install, manifest
from pgqpy.errors import InstallRefused, SchemaMissing, SchemaTooNew
from pgqpy.testing import EmbeddedServer
from tests.install.catalogue import catalogue
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]

REPOSITORY = Path(__file__).parents[2]
OLDER = range(1, manifest.shipped_version())


def psql(
    server: EmbeddedServer, database: str, *args: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [str(server.bin_dir / "psql"), "-X", "-q", server.dsn(database), *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def works(connection: Connection) -> bool:
    """Carry one event through the engine."""
    connection.execute("select pgq.create_queue('q')")
    connection.execute("select pgq.register_consumer('q', 'c')")
    connection.execute("select pgq.insert_event('q', 'type', 'data')")
    connection.execute("select pgq.tick_queue('q')")
    rows = connection.execute(
        "select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)"
    ).fetchall()
    return rows == [("data",)]


def test_fresh_install_works(admin: Connection) -> None:
    assert install.install(admin) == manifest.shipped_version()
    assert works(admin)


def test_every_sql_file_is_ascii() -> None:
    # A server in another encoding than UTF8 could not take anything else.
    for file in (REPOSITORY / "schema").rglob("*.sql"):
        assert file.read_text(encoding="utf-8").isascii(), file


def test_every_sql_file_is_in_the_manifest() -> None:
    named = {piece.file for piece in manifest.pieces()}
    schema = REPOSITORY / "schema"
    files = {file.relative_to(schema).as_posix() for file in schema.rglob("*.sql")}
    assert named == files


def test_owner_with_createrole_installs(make_owner: Callable[[str], Connection]) -> None:
    owner = make_owner("createrole")
    install.install(owner)
    assert works(owner)


def test_owner_without_createrole_is_told_which_roles_are_missing(
    make_owner: Callable[[str], Connection],
) -> None:
    owner = make_owner("")
    with pytest.raises(InstallRefused) as caught:
        install.install(owner)
    for role in install.ROLES:
        assert f"create role {role}" in str(caught.value)
    assert install.status(owner).state == "missing"
    assert owner.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_owner_without_createrole_installs_once_an_administrator_made_the_roles(
    make_owner: Callable[[str], Connection], admin: Connection
) -> None:
    owner = make_owner("")
    with pytest.raises(InstallRefused) as caught:
        install.install(owner)
    statements = str(caught.value).partition("an administrator runs: ")[2]
    for statement in statements.removesuffix("; then install again").split("; "):
        admin.execute(statement.encode())
    install.install(owner)
    assert works(owner)


def test_somebody_who_may_not_create_a_schema_is_refused(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> None:
    install_roles(admin)
    admin.execute("create role test_guest login")
    guest = connect(cluster.dsn(database, user="test_guest"))
    with pytest.raises(InstallRefused, match="owner of the database"):
        install.install(guest)
    assert install.status(admin).state == "missing"


def install_roles(admin: Connection) -> None:
    for role in install.ROLES:
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
    admin.execute("grant pgq_reader, pgq_writer to pgq_admin")


def test_installing_twice_changes_nothing(admin: Connection) -> None:
    install.install(admin)
    once = catalogue(admin)
    install.install(admin)
    assert catalogue(admin) == once


def test_installing_again_keeps_queues_events_and_positions(admin: Connection) -> None:
    install.install(admin)
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


def at_once(*connections: Connection) -> list[BaseException]:
    """Install by all of them at the same time; return what went wrong."""
    problems: list[BaseException] = []
    barrier = threading.Barrier(len(connections))

    def run(connection: Connection) -> None:
        try:
            barrier.wait()
            install.install(connection)
        except Exception as exc:  # noqa: BLE001  # the test looks at it
            problems.append(exc)

    threads = [threading.Thread(target=run, args=[connection]) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


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
    done = psql(cluster, database, "-f", str(REPOSITORY / "schema" / "install.sql"))
    assert (done.returncode, done.stderr) == (0, "")
    assert catalogue(admin) == fresh_catalogue


def test_the_printed_file_is_one_for_psql(
    cluster: EmbeddedServer, database: str, admin: Connection, fresh_catalogue: list[str]
) -> None:
    done = psql(cluster, database, text=manifest.print_sql())
    assert (done.returncode, done.stderr) == (0, "")
    assert catalogue(admin) == fresh_catalogue


def test_psql_stops_at_the_first_error_and_leaves_nothing(
    cluster: EmbeddedServer, database: str, admin: Connection
) -> None:
    broken = manifest.print_sql().replace("\ncommit;", "\nselect 1/0;\ncommit;")
    done = psql(cluster, database, text=broken)
    assert done.returncode != 0
    assert install.status(admin).state == "missing"


@pytest.mark.parametrize("version", OLDER)
def test_upgraded_equals_fresh(admin: Connection, fresh_catalogue: list[str], version: int) -> None:
    install_older(admin, version)
    assert install.status(admin).state == "old"
    assert install.upgrade(admin) == manifest.shipped_version()
    assert catalogue(admin) == fresh_catalogue


def install_older(connection: Connection, version: int) -> None:
    """Apply only the first migrations, as the release that ended with this version did."""
    wanted = [
        piece.text
        for piece in manifest.server_pieces()
        if piece.file == "setup/roles.sql" or (piece.migration or version + 1) <= version
    ]
    with connection.transaction():
        connection.execute("".join(wanted).encode())


def test_upgrade_needs_something_to_upgrade(admin: Connection) -> None:
    with pytest.raises(SchemaMissing):
        install.upgrade(admin)


def test_newer_schema_is_refused_and_left_alone(admin: Connection) -> None:
    install.install(admin)
    admin.execute("update pgq.installation set version = version + 1")
    before = catalogue(admin)
    with pytest.raises(SchemaTooNew):
        install.install(admin)
    assert catalogue(admin) == before
    assert install.status(admin).state == "newer"


def test_psql_refuses_a_newer_schema_too(
    cluster: EmbeddedServer, database: str, admin: Connection
) -> None:
    install.install(admin)
    admin.execute("update pgq.installation set version = version + 1")
    done = psql(cluster, database, text=manifest.print_sql())
    assert done.returncode != 0
    assert "newer" in done.stderr or "upgrade" in done.stderr


def test_foreign_schema_pgq_is_refused_and_left_alone(admin: Connection) -> None:
    admin.execute("create schema pgq create table mine (x int)")
    with pytest.raises(InstallRefused):
        install.install(admin)
    assert install.status(admin).state == "foreign"
    with pytest.raises(InstallRefused):
        install.uninstall(admin, force=True)
    assert admin.execute("select count(*) from pgq.mine").fetchone() == (0,)


def test_extension_is_refused_and_left_alone(extension_dsn: str, connect: Connect) -> None:
    connection = connect(extension_dsn)
    with pytest.raises(InstallRefused, match="extension"):
        install.install(connection)
    found = install.status(connection)
    assert found.state == "extension"
    assert found.extension
    with pytest.raises(InstallRefused, match="extension"):
        install.uninstall(connection, force=True)
    connection.execute("select pgq.create_queue('q')")


def test_install_needs_a_connection_of_its_own(
    cluster: EmbeddedServer, database: str, connect: Connect
) -> None:
    with pytest.raises(InstallRefused, match="autocommit"):
        install.install(connect(cluster.dsn(database), autocommit=False))
    busy = connect(cluster.dsn(database))
    with busy.transaction(), pytest.raises(InstallRefused, match="transaction"):
        install.install(busy)


def test_error_of_the_server_names_file_and_line(
    admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = list(manifest.pieces())
    broken = manifest.Piece("tables/001_queue.sql", "-- first line\nselect nonsense;\n", 1)
    changed = [broken if piece.file == broken.file else piece for piece in pieces]
    monkeypatch.setattr(manifest, "pieces", lambda: iter(changed))
    with pytest.raises(install.InstallFailed, match=r"^schema/tables/001_queue\.sql:2: ") as caught:
        install.install(admin)
    assert isinstance(caught.value.__cause__, psycopg.errors.UndefinedColumn)
    assert install.status(admin).state == "missing"


def test_installed_in_a_database_whose_defaults_are_strange(
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


def test_uninstall_removes_everything_but_the_roles(admin: Connection) -> None:
    install.install(admin)
    gone = install.uninstall(admin)
    assert gone.queues == 0
    assert gone.dropped_roles == ()
    assert set(gone.kept_roles) == set(install.ROLES)
    assert install.status(admin).state == "missing"
    install.install(admin)
    assert works(admin)


def test_uninstall_refuses_while_there_are_queues(admin: Connection) -> None:
    install.install(admin)
    assert works(admin)
    with pytest.raises(InstallRefused, match="1 queue"):
        install.uninstall(admin)
    assert install.status(admin).queues == 1
    assert install.uninstall(admin, force=True).queues == 1
    assert install.status(admin).state == "missing"


def test_uninstall_drops_the_roles_when_asked(admin: Connection) -> None:
    install.install(admin)
    gone = install.uninstall(admin, roles=True)
    assert set(gone.dropped_roles) == set(install.ROLES)
    assert gone.kept_roles == ()


def test_uninstall_keeps_roles_that_are_used(
    cluster: EmbeddedServer, other_database: str, admin: Connection
) -> None:
    install.install(admin)
    admin.execute("create role test_app")
    admin.execute("grant pgq_writer to test_app")
    with psycopg.connect(cluster.dsn(other_database), autocommit=True) as other:
        other.execute("create table mine (x int)")
        other.execute("grant select on mine to pgq_reader")
        gone = install.uninstall(admin, roles=True)
    assert set(gone.kept_roles) == {"pgq_writer", "pgq_reader"}
    assert set(gone.dropped_roles) == {"pgq_admin", "pgq_ticker"}


def test_uninstall_needs_something_to_remove(admin: Connection) -> None:
    with pytest.raises(SchemaMissing):
        install.uninstall(admin)
