"""A run may be killed at any step: the next one leaves files that equal the tables."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.archive import gated
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.archive.shop import Shop
    from tests.support.processes import PythonProcess

    Connect = Callable[..., psycopg.Connection[Any]]
    Spawn = Callable[..., PythonProcess]

SESSION = "select pid from pg_stat_activity where application_name = 'pgqpy archive orders'"
WAITS = """
    select pid from pg_locks where locktype = 'advisory' and objid = %s and not granted
       and database = (select oid from pg_database where datname = current_database())"""
PINS = "select pos_pins from pgq.current_position where pos_pins <> '{}'"
FILE, LEFT = ".parquet", ".tmp"


@contextmanager
def waiting_at(
    step: str, shop: Shop, keeper: psycopg.Connection[Any], spawn: Spawn
) -> Iterator[PythonProcess]:
    """Start a run that waits before this step until the block ends."""
    keeper.execute("select pg_advisory_lock(%s)", [gated.STEPS[step]])
    run = spawn(gated.__file__, shop.dsn, f"gated://{shop.location}")
    eventually(lambda: keeper.execute(WAITS, [gated.STEPS[step]]).fetchall())
    yield run
    keeper.execute("select pg_advisory_unlock_all()")


def names(shop: Shop) -> list[str]:
    """Return the ends of the files' names, without the first run's."""
    return [path.suffix for path in times(shop) if not path.name.startswith(("1-2-", "_begun"))]


def times(shop: Shop) -> dict[Path, int]:
    files = (path for path in Path(shop.location).rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files}


def files_of(shop: Shop) -> dict[Path, int]:
    return {path: time for path, time in times(shop).items() if path.suffix == FILE}


def session(connection: psycopg.Connection[Any]) -> int:
    return eventually(lambda: connection.execute(SESSION).fetchall())[0][0]


@pytest.mark.parametrize(("step", "left"), [("copy", []), ("rename", [LEFT]), ("renamed", [FILE])])
def test_files_equal_the_tables_after_a_kill(
    shop: Shop, connect: Connect, spawn: Spawn, step: str, left: list[str]
) -> None:
    shop.archive("0")
    shop.insert("a", "b")
    with waiting_at(step, shop, connect(), spawn) as run:
        run.kill()
    assert names(shop) == left
    assert connect().execute(PINS).fetchall() != []
    shop.archive("c")
    assert shop.is_whole()
    assert shop.archived() == ["0", "a", "b", "c"]
    assert set(names(shop)) == {FILE}


def test_a_kill_after_the_pin_keeps_the_range(shop: Shop, connect: Connect, spawn: Spawn) -> None:
    shop.archive("a", "b")
    shop.insert("c")
    with waiting_at("copy", shop, connect(), spawn) as run:
        run.kill()
    (pins,) = connect().execute(PINS).fetchone() or (None,)
    assert pins == [shop.last_tick]
    shop.insert("d")
    shop.run(max_events=10_000)
    assert shop.is_whole()
    assert [file.to_tick for file in shop.files][1:] == [pins[0], shop.last_tick]


def test_a_kill_before_the_consumer_moves_writes_nothing_again(
    shop: Shop, connect: Connect, spawn: Spawn
) -> None:
    shop.run()
    shop.insert("a", "b")
    keeper, mover = connect(), connect(autocommit=False)
    with waiting_at("read back", shop, keeper, spawn) as run:
        mover.execute("select from pgq.registration for update")
    wait_until_blocked(keeper, session(keeper))
    run.kill()
    mover.rollback()
    (path,) = Path(shop.location).rglob("*.parquet")
    written = path.stat().st_mtime_ns
    assert shop.run() == (0, 0)
    assert path.stat().st_mtime_ns == written
    assert shop.is_whole()
    assert shop.archived() == ["a", "b"]


def test_a_run_that_lost_its_session_writes_nothing_more(
    shop: Shop, connect: Connect, spawn: Spawn
) -> None:
    shop.run()
    shop.insert("a")
    keeper = connect()
    with waiting_at("copy", shop, keeper, spawn) as run:
        keeper.execute(f"select pg_terminate_backend(pid) from ({SESSION}) s")
        shop.archive("b")
        before = files_of(shop)
    assert run.wait() == 1
    assert files_of(shop) == before
    shop.run()
    assert shop.is_whole()
