"""A refused installation says why, and changes nothing."""

from __future__ import annotations

import psycopg
import pytest

from pgqpy import install, manifest
from pgqpy.errors import SchemaRefused
from pgqpy.testing import EmbeddedServer
from tests.install.catalogue import catalogue
from tests.install.support import REPOSITORY, Connect, Connection, psql

PSQL_STOPPED = 3  # the exit code after an error with ON_ERROR_STOP


def test_somebody_who_may_not_create_a_schema_is_refused(
    cluster: EmbeddedServer, database: str, admin: Connection, connect: Connect
) -> None:
    for role in (*install.ROLES, "test_guest login"):
        admin.execute(f"create role {role}".encode())
    admin.execute("grant pgq_reader, pgq_writer to pgq_admin")
    guest = connect(cluster.dsn(database, user="test_guest"))
    with pytest.raises(SchemaRefused, match="owner of the database"):
        install.install(guest)
    script = str(REPOSITORY / "schema" / "install.sql")
    done = psql(cluster, database, "-c", "set role test_guest", "-f", script)
    assert done.returncode == PSQL_STOPPED
    assert "permission denied for database" in done.stderr
    assert install.status(admin).state == "missing"


def test_psql_stops_at_the_first_error_and_leaves_nothing(
    cluster: EmbeddedServer, database: str, admin: Connection
) -> None:
    broken = manifest.print_sql().replace("\ncommit;", "\nselect 1/0;\ncommit;")
    done = psql(cluster, database, text=broken)
    assert done.returncode != 0
    assert install.status(admin).state == "missing"


def test_newer_schema_is_refused_and_left_alone(
    cluster: EmbeddedServer, database: str, admin: Connection
) -> None:
    install.install(admin)
    admin.execute("update pgq.installation set version = version + 1")
    before = catalogue(admin)
    with pytest.raises(SchemaRefused):
        install.install(admin)
    done = psql(cluster, database, text=manifest.print_sql())
    assert done.returncode != 0
    assert "newer" in done.stderr or "upgrade" in done.stderr
    assert catalogue(admin) == before
    assert install.status(admin).state == "newer"


def test_extension_is_refused_and_left_alone(extension_dsn: str, connect: Connect) -> None:
    connection = connect(extension_dsn)
    with pytest.raises(SchemaRefused, match="extension"):
        install.install(connection)
    found = install.status(connection)
    assert found.state == "extension"
    assert found.extension
    with pytest.raises(SchemaRefused, match="extension"):
        install.uninstall(connection, force=True)
    connection.execute("select pgq.create_queue('q')")


def test_database_or_role_that_is_not_utf8_is_refused(
    cluster: EmbeddedServer, admin: Connection, connect: Connect
) -> None:
    admin.execute("create database latin template template0 locale 'C' encoding 'LATIN1'")
    latin = connect(cluster.dsn("latin"))
    with pytest.raises(SchemaRefused, match="database is LATIN1: pgqpy needs UTF8"):
        install.install(latin)
    latin.execute("create role müller")
    try:
        with pytest.raises(SchemaRefused, match="name of the role with oid"):
            install.install(admin)
    finally:
        latin.execute("drop role müller")


def test_install_needs_a_connection_of_its_own(
    cluster: EmbeddedServer, database: str, connect: Connect
) -> None:
    with pytest.raises(SchemaRefused, match="autocommit"):
        install.install(connect(cluster.dsn(database), autocommit=False))
    busy = connect(cluster.dsn(database))
    with busy.transaction(), pytest.raises(SchemaRefused, match="transaction"):
        install.install(busy)


def test_error_of_the_server_names_file_and_line(
    admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = list(manifest.pieces())
    broken = manifest.Piece("tables/queue.sql", "-- first line\nselect nonsense;\n", 1)
    changed = [broken if piece.file == broken.file else piece for piece in pieces]
    monkeypatch.setattr(manifest, "pieces", lambda: iter(changed))
    with pytest.raises(install.InstallFailed, match=r"^schema/tables/queue\.sql:2: ") as caught:
        install.install(admin)
    assert isinstance(caught.value.__cause__, psycopg.errors.UndefinedColumn)
    assert install.status(admin).state == "missing"
