"""Uninstalling drops the schema; roles that are used stay."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from pgqpy import install
from pgqpy.errors import SchemaMissing, SchemaRefused
from pgqpy.testing import EmbeddedServer
from tests.install.support import Connect, Connection, works


def test_uninstall_removes_everything_and_the_roles_when_asked(admin: Connection) -> None:
    with pytest.raises(SchemaMissing):
        install.uninstall(admin)
    install.install(admin)
    gone = install.uninstall(admin)
    assert gone.queues == 0
    assert gone.dropped_roles == ()
    assert set(gone.kept_roles) == set(install.ROLES)
    assert install.status(admin).state == "missing"
    install.install(admin)
    assert works(admin)
    gone = install.uninstall(admin, force=True, roles=True)
    assert set(gone.dropped_roles) == set(install.ROLES)
    assert gone.kept_roles == ()


def test_uninstall_refuses_while_there_are_queues(admin: Connection) -> None:
    install.install(admin)
    assert works(admin)
    with pytest.raises(SchemaRefused, match="or uninstall with --force"):
        install.uninstall(admin)
    assert install.status(admin).queues == 1
    admin.execute("set quote_all_identifiers = on")  # its own objects are known by it, too
    assert install.uninstall(admin, force=True).queues == 1
    assert install.status(admin).state == "missing"


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
    assert set(gone.dropped_roles) == {"pgq_admin", "pgq_ticker", "pgq_dashboard", "pgq_capture"}


def test_uninstall_drops_no_queue_that_row_level_security_hides_from_the_owner(
    make_owner: Callable[[str], Connection],
) -> None:
    owner = make_owner("createrole")
    install.install(owner)
    assert works(owner)
    for verb in ("enable", "force"):
        owner.execute(f"alter table pgq.queue {verb} row level security".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        owner.execute("select * from pgq.get_queue_info()")
    owner.execute("set row_security = on")
    with pytest.raises(SchemaRefused, match="row-level security"):
        install.uninstall(owner)
    owner.execute("alter table pgq.queue no force row level security")
    assert owner.execute("select queue_name from pgq.queue").fetchall() == [("q",)]


FOREIGN = {
    "a column of a type": "create table app.t (n int, ev pgq.event_1_0)",
    "a view": "create view app.t as select ev_id from pgq.event_1",
    "an heir": "create table app.t () inherits (pgq.event_1)",
    "a default": "create table app.t (n bigint default nextval('pgq.event_1_id_seq'))",
    "a key": "create table app.t (q int references pgq.queue)",
}


def test_uninstall_without_room_for_its_locks_drops_nothing_and_says_what_to_do(
    admin: Connection, connect: Connect
) -> None:
    install.install(admin)
    assert works(admin)
    crowd = connect(admin.info.dsn, password=admin.info.password)
    with pytest.raises(psycopg.errors.OutOfMemory):
        crowd.execute("select pg_advisory_lock(n) from generate_series(1, 1000000) n")
    crowd.execute("select pg_advisory_unlock(n) from generate_series(1, 200) n")
    with pytest.raises(SchemaRefused, match=r"nothing was dropped.*max_locks_per_transaction"):
        install.uninstall(admin, force=True)
    crowd.execute("select pg_advisory_unlock_all()")
    assert install.status(admin).queues == 1
    assert install.uninstall(admin, force=True).queues == 1


def test_uninstall_leaves_and_names_what_others_made(admin: Connection) -> None:
    install.install(admin)
    assert works(admin)
    for made in FOREIGN.values():
        admin.execute(f"create schema app; {made}".encode())
        with pytest.raises(SchemaRefused, match=r"other objects depend on .*app\.t"):
            install.uninstall(admin, force=True)
        admin.execute("select from app.t")
        assert install.status(admin).queues == 1
        admin.execute("drop schema app cascade")
    assert install.uninstall(admin, force=True).queues == 1
