"""Databases for tests: a template with the schema installed once, and clones of it."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pgqpy.install import install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.support.servers import Server

_numbers = itertools.count(1)
# Roles belong to the whole cluster: pytest processes on one server install in turn.
INSTALL_LOCK = 7366599


@contextmanager
def template_database(server: Server) -> Iterator[str]:
    """Make a database with the schema installed, yield its name, drop it at the end."""
    with new_database(server) as name:
        _install(server, name)
        yield name


@contextmanager
def queue_template(
    server: Server, template: str, queue: str, consumer: str, **config: str
) -> Iterator[str]:
    """Make a database with a queue and a consumer, to clone from: half of a test's time is that.

    The tests that clone it run QUEUE_IS_NEW first.
    """
    with new_database(server, template) as name:
        with psycopg.connect(server.dsn(name), autocommit=True) as mine:
            mine.execute("select pgq.create_queue(%s)", [queue])
            for parameter, value in config.items():
                mine.execute("select pgq.set_queue_config(%s, %s, %s)", [queue, parameter, value])
            mine.execute("select pgq.register_consumer(%s, %s)", [queue, consumer])
        yield name


QUEUE_IS_NEW = """
    update pgq.tick set tick_time = now();
    update pgq.position set pos_active = now();
    update pgq.queue set queue_switch_time = now();
"""


@contextmanager
def new_database(server: Server, template: str | sql.Composed = "template0") -> Iterator[str]:
    """Make a database from a template that nobody is connected to; drop it at the end.

    Instead of the template's name it takes the options of `create database`.

    It drops by force: what a test left connected or prepared does not stay.
    """
    name = f"pgqpy_test_{os.getpid()}_{next(_numbers)}"
    with _admin(server) as admin:
        if isinstance(template, str):
            copy = sql.SQL("strategy file_copy" if admin.info.server_version >= 150_000 else "")
            template = sql.SQL("template {} {}").format(sql.Identifier(template), copy)
        admin.execute(sql.SQL("create database {} {}").format(sql.Identifier(name), template))
        try:
            yield name
        finally:
            _end_prepared_transactions(server, name, admin)
            _end_sessions(name, admin)
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


# A session ends a moment after its client has closed it. A drop that finds one waits for 100 ms,
# half of the time that many tests take.
_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
_PREPARED = "select gid from pg_prepared_xacts where database = %s"


@contextmanager
def kept_session(server: Server) -> Iterator[None]:
    """Keep one session for all databases that are made on this server: to connect takes 5 ms."""
    with psycopg.connect(server.dsn(), autocommit=True) as session:
        if session.info.server_version >= 180_000:
            session.execute("set file_copy_method = clone")  # the kernel copies: a tenth less CPU
        _kept[server.dsn()] = session
        yield
    del _kept[server.dsn()]


_kept: dict[str, psycopg.Connection[Any]] = {}


def _admin(server: Server) -> AbstractContextManager[psycopg.Connection[Any]]:
    kept = _kept.get(server.dsn())
    return nullcontext(kept) if kept else psycopg.connect(server.dsn(), autocommit=True)


def _install(server: Server, name: str) -> None:
    with psycopg.connect(server.dsn()) as admin, psycopg.connect(server.dsn(name)) as mine:
        mine.autocommit = True
        admin.execute("select pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        install(mine)


def _end_sessions(name: str, admin: psycopg.Connection[Any]) -> None:
    with suppress(AssertionError):  # the drop tells what is wrong
        eventually(lambda: not admin.execute(_SESSIONS, [name]).fetchall(), 5, interval=0.005)


def _end_prepared_transactions(server: Server, name: str, admin: psycopg.Connection[Any]) -> None:
    prepared = admin.execute(_PREPARED, [name]).fetchall()
    if not prepared:
        return
    with psycopg.connect(server.dsn(name), autocommit=True) as mine:
        for (gid,) in prepared:
            mine.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))
