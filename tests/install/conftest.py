"""A cluster without the six roles: they belong to a cluster, so these tests need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgqpy import install
from pgqpy.testing import EmbeddedServer
from tests.support.databases import new_database
from tests.support.servers import FAST, other_programs, private_server


@pytest.fixture(scope="session")
def bare_server() -> Iterator[EmbeddedServer]:
    with private_server(FAST, other_programs()) as server:
        yield server


@pytest.fixture
def cluster(bare_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """The cluster, without the roles and without the users of an earlier test."""
    yield bare_server
    with psycopg.connect(bare_server.dsn(), autocommit=True) as admin:
        roles = admin.execute(
            "select rolname from pg_roles where rolname like 'pgq\\_%' or rolname like 'test\\_%'"
            " order by 1"
        ).fetchall()
        for (role,) in roles:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.fixture
def database(cluster: EmbeddedServer) -> Iterator[str]:
    with new_database(cluster) as name:
        yield name


@pytest.fixture
def other_database(cluster: EmbeddedServer) -> Iterator[str]:
    with new_database(cluster) as name:
        yield name


Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def admin(cluster: EmbeddedServer, database: str, connect: Connect) -> psycopg.Connection[Any]:
    """A superuser's connection to the database."""
    return connect(cluster.dsn(database))


@pytest.fixture
def make_owner(
    cluster: EmbeddedServer, database: str, admin: psycopg.Connection[Any], connect: Connect
) -> Callable[[str], psycopg.Connection[Any]]:
    """Make a role with these attributes the owner of the database, and connect as it."""

    def maker(attributes: str) -> psycopg.Connection[Any]:
        admin.execute(f"create role test_owner login {attributes}".encode())
        admin.execute(
            sql.SQL("alter database {} owner to test_owner").format(sql.Identifier(database))
        )
        return connect(cluster.dsn(database, user="test_owner"))

    return maker


@pytest.fixture
def fresh_catalogue(cluster: EmbeddedServer, other_database: str) -> list[str]:
    """What a fresh install by a superuser makes."""
    from tests.install.catalogue import catalogue

    with psycopg.connect(cluster.dsn(other_database), autocommit=True) as connection:
        install.install(connection)
        return catalogue(connection)


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool
