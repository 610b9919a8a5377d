"""Installations and upgrades wait for sessions that use the queues, without deadlocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import install, manifest
from tests.install.support import make_release
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from pgqpy.testing import EmbeddedServer
    from tests.install.support import Connection

READ_POSITION = "select count(*) from pgq.position"
READ_VIEW = "select count(*) from pgq.subscription"
STEP = manifest.INITIAL + 1  # what the made-up step brings the database to
LOCK_QUEUES = "select pg_advisory_xact_lock(7366513, 2)"  # as create_queue and drop_queue


@pytest.fixture
def session(
    cluster: EmbeddedServer, database: str, connect: Callable[..., Connection]
) -> Callable[[], Connection]:
    """Open one more session of the database."""
    return lambda: connect(cluster.dsn(database))


@pytest.fixture
def sessions(
    admin: Connection, session: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> list[Connection]:
    """Three sessions of a database that is one step behind."""
    install.install(admin)
    make_release(monkeypatch, "alter table pgq.position add column made_up int")
    return [session() for _ in range(3)]


def _ask(pool: ThreadPoolExecutor, connection: Connection, statement: str) -> Future[Any]:
    return pool.submit(lambda: connection.execute(statement.encode()).fetchone())


def _pid(connection: Connection) -> int:
    return connection.info.backend_pid


def test_query_of_positions_waits_for_the_upgrade(
    admin: Connection, sessions: list[Connection], background: ThreadPoolExecutor
) -> None:
    consumer, upgrader, asker = sessions
    consumer.execute(f"begin; {READ_POSITION}".encode())
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    asked = _ask(background, asker, READ_VIEW)
    wait_until_blocked(admin, _pid(asker))
    consumer.execute("commit")
    assert upgrade.result(timeout=30) == STEP
    assert asked.result(timeout=30) == (0,)


def test_upgrade_waits_for_a_session_that_creates_or_drops_a_queue(
    admin: Connection, sessions: list[Connection], background: ThreadPoolExecutor
) -> None:
    maker, upgrader, _ = sessions
    maker.execute(f"begin; {LOCK_QUEUES}".encode())
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    assert _ask(background, maker, READ_POSITION).result(timeout=30) == (0,)
    maker.execute("commit")
    assert upgrade.result(timeout=30) == STEP


TAKE = "select pgq_coop.next_batch('q', 'c', %s, '1 hour')"
FINISH = "select pgq.finish_batch(%s)"
EVENTS = "select ev_id, ev_data from pgq.get_batch_events(%s)"
STEPS = {
    "takes over a silent one's batch": "select",
    "finishes a part": "select pgq.finish_part({batch}, {first})",
}


@pytest.mark.parametrize("step", STEPS)
def test_upgrade_waits_for_a_subconsumer_and_another_one_for_the_upgrade(
    admin: Connection, sessions: list[Connection], background: ThreadPoolExecutor, step: str
) -> None:
    one, upgrader, other = sessions
    make = "select pgq.create_queue('q'), pgq.register_consumer('q', 'c')"
    admin.execute(make.encode())
    for number in "123":
        admin.execute("select pgq_coop.register_subconsumer('q', 'c', %s)", [number])
        admin.execute("select pgq.insert_event('q', 't', %s)", [number])
        admin.execute("select pgq.tick_queue('q')")
    if "silent" in step:
        admin.execute(TAKE, ["3"])
        admin.execute("update pgq.position set pos_active = '2005-01-01'")
    one.execute("begin")
    try:
        (batch,) = one.execute(TAKE, ["1"]).fetchone() or (None,)
        ((first, data),) = one.execute(EVENTS, [batch]).fetchall()
        one.execute(STEPS[step].format(batch=batch, first=first).encode())
        upgrade = background.submit(install.install, upgrader)
        wait_until_blocked(admin, _pid(upgrader))
        taken = background.submit(lambda: other.execute(TAKE, ["2"]).fetchone())
        wait_until_blocked(admin, _pid(other))
        assert one.execute(FINISH, [batch]).fetchone() == (1,)
    finally:
        one.execute("commit")
    assert upgrade.result(timeout=30) == STEP
    found = [data]
    (batch,) = taken.result(timeout=30) or (None,)
    while batch is not None:
        found += [data for _, data in other.execute(EVENTS, [batch])]
        assert other.execute(FINISH, [batch]).fetchone() == (1,)
        (batch,) = other.execute(TAKE, ["2"]).fetchone() or (None,)
    assert sorted(found) == ["1", "2", "3"]


ROTATE = """
    update pgq.queue set queue_rotation_period = '1 microsecond';
    select pgq.maint_rotate_tables_step1('q')
"""


def test_installation_waits_for_maintenance(
    admin: Connection, session: Callable[[], Connection], background: ThreadPoolExecutor
) -> None:
    install.install(admin)
    admin.execute("select pgq.create_queue('q')")
    admin.execute("select pgq.tick_queue('q')")
    maintainer, upgrader = session(), session()
    for maintain in ("select pgq.compact_ticks()", "select pgq.compact_positions()", ROTATE):
        maintainer.execute(f"begin; {maintain}".encode())
        upgrade = background.submit(install.install, upgrader)
        try:
            wait_until_blocked(admin, _pid(upgrader))
        finally:
            maintainer.execute("commit")
        assert upgrade.result(timeout=30) == manifest.shipped_version()
