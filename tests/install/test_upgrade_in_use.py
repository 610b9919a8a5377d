"""Steps of the schema beside sessions that use the queues: they wait for it, nobody deadlocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import install, manifest
from tests.install.support import install_older
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

    from pgqpy.testing import EmbeddedServer
    from tests.install.support import Connection

READ_POSITION = "select count(*) from pgq.position"
READ_VIEW = "select count(*) from pgq.subscription"
LOCK_QUEUES = "select pg_advisory_xact_lock(7366513, 2)"  # as create_queue and drop_queue


@pytest.fixture
def session(
    cluster: EmbeddedServer, database: str, connect: Callable[..., Connection]
) -> Callable[[], Connection]:
    """Open one more session of the database."""
    return lambda: connect(cluster.dsn(database))


@pytest.fixture
def sessions(admin: Connection, session: Callable[[], Connection]) -> list[Connection]:
    """Three sessions of a database at version 7, with the view that it had."""
    install_older(admin, 7)
    (view,) = [each for each in manifest.server_pieces() if each.file == "views/subscription.sql"]
    admin.execute(view.text.encode())
    return [session() for _ in range(3)]


def _ask(pool: ThreadPoolExecutor, connection: Connection, statement: str) -> Future[Any]:
    return pool.submit(lambda: connection.execute(statement.encode()).fetchone())


def _pid(connection: Connection) -> int:
    return connection.info.backend_pid


def test_who_asks_for_positions_meanwhile_waits_for_the_upgrade(
    admin: Connection, sessions: list[Connection], background: ThreadPoolExecutor
) -> None:
    consumer, upgrader, asker = sessions
    consumer.execute(f"begin; {READ_POSITION}".encode())
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    asked = _ask(background, asker, READ_VIEW)
    wait_until_blocked(admin, _pid(asker))
    consumer.execute("commit")
    assert upgrade.result(timeout=30) == manifest.shipped_version()
    assert asked.result(timeout=30) == (0,)


def test_who_makes_or_drops_a_queue_meanwhile_is_waited_for(
    admin: Connection, sessions: list[Connection], background: ThreadPoolExecutor
) -> None:
    maker, upgrader, _ = sessions
    maker.execute(f"begin; {LOCK_QUEUES}".encode())
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    assert _ask(background, maker, READ_POSITION).result(timeout=30) == (0,)
    maker.execute("commit")
    assert upgrade.result(timeout=30) == manifest.shipped_version()


def test_upgrade_waits_for_an_open_stage_which_goes_on(
    admin: Connection, session: Callable[[], Connection], background: ThreadPoolExecutor
) -> None:
    install_older(admin, 10)
    stage = "insert into pgq.stage (stage_queue, stage_txid, stage_writer) values (1, {}, 'w')"
    task, upgrader = session(), session()
    task.execute(f"begin; {stage.format(1)}".encode())  # as open_stage of version 10
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    task.execute(stage.format(2).encode())
    assert _ask(background, task, READ_POSITION).result(timeout=30) == (0,)
    task.execute("commit")
    assert upgrade.result(timeout=30) == manifest.shipped_version()
    found = admin.execute("select stage_txid, stage_events from pgq.stage order by 1").fetchall()
    assert found == [(1, None), (2, None)]


def test_who_commits_a_stage_of_version_9_meanwhile_does_not_deadlock(
    admin: Connection, session: Callable[[], Connection], background: ThreadPoolExecutor
) -> None:
    install_older(admin, 9)
    for number in (1, 2):
        admin.execute(f"create table pgq.stage_{number} (attempt uuid)".encode())
    task, committer, upgrader = session(), session(), session()
    task.execute("begin; insert into pgq.stage_2 values (gen_random_uuid())")
    committer.execute("begin; select count(*) from pgq.stage")  # as commit_stage of version 9
    upgrade = background.submit(install.install, upgrader)
    wait_until_blocked(admin, _pid(upgrader))
    try:
        assert _ask(background, committer, "select count(*) from pgq.stage_1").result(timeout=10)
    finally:
        task.execute("commit")
    committer.execute("commit")
    assert upgrade.result(timeout=30) == manifest.shipped_version()
    found = admin.execute("select relname from pg_class where relname ~ '^stage_[0-9]+$'")
    assert found.fetchall() == []


ROTATE = """
    update pgq.queue set queue_rotation_period = '1 microsecond';
    select pgq.maint_rotate_tables_step1('q')
"""


@pytest.mark.parametrize(
    "maintain",
    ["select pgq.compact_ticks()", "select pgq.compact_positions()", ROTATE],
    ids=["compaction of ticks", "compaction of positions", "rotation"],
)
def test_installation_waits_for_maintenance(
    admin: Connection,
    session: Callable[[], Connection],
    background: ThreadPoolExecutor,
    maintain: str,
) -> None:
    install.install(admin)
    admin.execute("select pgq.create_queue('q')")
    admin.execute("select pgq.tick_queue('q')")
    maintainer, upgrader = session(), session()
    maintainer.execute(f"begin; {maintain}".encode())
    upgrade = background.submit(install.install, upgrader)
    try:
        wait_until_blocked(admin, _pid(upgrader))
    finally:
        maintainer.execute("commit")
    assert upgrade.result(timeout=30) == manifest.shipped_version()
