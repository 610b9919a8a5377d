"""A synchronous standby that is away: every COMMIT waits for it, and that is not hidden."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import doctor
from pgqpy.consumers import session_watch
from tests.consumers.harness import Maker, Queue, installed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.testing import EmbeddedServer

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "transactional": {"transactional": True},
}


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """A session whose commits wait for nobody."""
    dsn = installed(own_server)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set synchronous_commit = local")
        yield connection


def wait_for_standby(admin: psycopg.Connection[Any], name: str) -> None:
    """Let commits wait for this standby; '' for none."""
    admin.execute(f"alter system set synchronous_standby_names = '{name}'".encode())
    admin.execute("select pg_reload_conf()")
    eventually(lambda: admin.execute("show synchronous_standby_names").fetchone() == (name,))


def standby_findings(admin: psycopg.Connection[Any]) -> list[doctor.Finding]:
    return [found for found in doctor.examine(admin) if found.check == "standby"]


def test_consumers_and_doctor_tell_that_a_synchronous_standby_is_away(
    own_server: EmbeddedServer,
    admin: psycopg.Connection[Any],
    asynchronous: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "pgqpy.consumers")
    monkeypatch.setattr(session_watch, "SLOW", 0.3)
    monkeypatch.setattr(session_watch, "WATCH_INTERVAL", 0.1)
    queue = Queue(pgqpy.Client(admin))
    maker = Maker(own_server.dsn(), asynchronous=asynchronous)
    seen: list[str] = []

    def note(event: Any) -> tuple[()]:
        seen.append(event.data)
        return ()  # statements

    consumers = [
        maker.start(note, name=name, **settings).consumer for name, settings in KINDS.items()
    ]
    try:
        eventually(lambda: all(each.outage() is None for each in consumers))
        assert standby_findings(admin) == []
        wait_for_standby(admin, "nobody")
        queue.insert("a")
        eventually(lambda: all("has been running" in str(each.outage()) for each in consumers))
        told = [f"pgqpy consumer {name}: a call to the database has been" for name in KINDS]
        eventually(lambda: all(text in caplog.text for text in told))
        (found,) = eventually(lambda: standby_findings(admin))
        assert (found.level, "'nobody', connected: none" in found.what) == ("fail", True)
        assert "synchronous_standby_names" in found.remedy
        wait_for_standby(admin, "")
        eventually(lambda: len(seen) == len(KINDS))
        eventually(lambda: all(each.outage() is None for each in consumers))
    finally:
        wait_for_standby(admin, "")
        maker.close()


def test_handlers_may_take_as_long_as_they_like(queue, make, gate, effects, monkeypatch) -> None:
    monkeypatch.setattr(session_watch, "SLOW", 0.01)

    def wait(_event: Any, *_: Any) -> Iterator[tuple[str, None]]:
        yield gate.wait_sql, None

    running = make.start(wait, transactional=True)
    queue.insert("a")
    gate.wait_for_arrival()
    assert running.consumer.outage() is None
    gate.open()
    queue.wait_until_finished()
