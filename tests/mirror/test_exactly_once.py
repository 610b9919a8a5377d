"""Each change is applied once: after kills, lost connections, and beside stale processes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgqpy import mirror as module
from pgqpy.errors import PgqError
from tests.mirror.conftest import FENCE, NAME, QUEUE
from tests.support.gates import shut_gate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.gates import Gate
    from tests.support.processes import PythonProcess

# Each write of a row in the target is noted.
NOTED = """
    create table noted (id int, price numeric);
    create function note() returns trigger language plpgsql as $$
        begin insert into noted values (new.id, new.price); return null; end $$;
    create trigger note after insert or update on item for each row execute function note()"""
PROGRAM = """
import logging, signal, sys
import psycopg
from pgqpy import Mirror
logging.basicConfig(level=logging.INFO)

class Slow(Mirror):
    queue, name = {queue!r}, {name!r}
    def process_batch(self, batch):
        if {before!r}:
            print("has a batch", flush=True)
            with psycopg.connect(sys.argv[2]) as gate:
                gate.execute({before!r})
        super().process_batch(batch)
        print("applied", flush=True)
        if {halts!r}:
            signal.pause()

Slow(sys.argv[1], target=sys.argv[2]).run()
"""
END = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
SOURCE, TARGET = f"pgqpy consumer {NAME}", f"pgqpy mirror {NAME}"


def program(before: str = "", *, halts: bool = False) -> str:
    return PROGRAM.format(queue=QUEUE, name=NAME, before=before, halts=halts)


@pytest.fixture
def noted(shop, items) -> Callable[[], list[Any]]:
    """What was written in the target, in order."""
    shop.target.execute(NOTED)
    return lambda: shop.target.execute("select id, price from noted").fetchall()


def test_a_mirror_killed_before_it_finished_the_batch_applies_nothing_twice(shop, noted, spawn):
    shop.source.execute("insert into item values (1, 'a', 1), (2, 'b', 2)")
    tick = shop.tick()
    process = spawn("-c", program(halts=True), shop.dsn, shop.target_dsn)
    process.wait_for_output("applied")
    assert shop.client.get_consumer_info(QUEUE, NAME)[0].current_batch is not None
    process.kill()
    with shop.running():
        eventually(lambda: shop.position() == tick)
        assert noted() == [(1, 1), (2, 2)]
        shop.source.execute("update item set price = 3 where id = 1")
        shop.wait()
    assert noted() == [(1, 1), (2, 2), (1, 3)]


@pytest.fixture
def stale(shop, spawn, connect) -> Iterator[tuple[Gate, PythonProcess]]:
    """A mirror that halts at a gate with the first batch in hand, and has lost its session."""
    with shut_gate(connect(dsn=shop.target_dsn)) as gate:
        shop.source.execute("insert into item values (1, 'a', 1)")
        shop.tick()
        process = spawn("-c", program(gate.wait_sql), shop.dsn, shop.target_dsn)
        gate.wait_for_arrival()
        shop.source.execute(END, [SOURCE])
        yield gate, process


def test_a_stale_mirror_changes_nothing(shop, noted, stale):
    gate, process = stale
    with shop.running():
        shop.wait()
        for price in (2, 3):
            shop.source.execute("update item set price = %s", [price])
            shop.wait()
        before = noted(), shop.target.execute(FENCE).fetchall()
        assert before[0] == [(1, 1), (1, 2), (1, 3)]
        gate.open()
        process.wait_for_output("standby")
        assert (noted(), shop.target.execute(FENCE).fetchall()) == before
    shop.assert_same("item")


def test_of_two_mirrors_in_one_batch_the_second_changes_nothing(shop, noted, stale):
    gate, process = stale
    with shop.running():
        shop.wait()
        gate.open()
        process.wait_for_output("standby")
    assert noted() == [(1, 1)]


def test_a_lost_target_gets_the_batch_again(shop, noted, connect, caplog):
    with shop.running():
        shop.source.execute("insert into item values (1, 'a', 1)")
        shop.wait()
        locker = connect(dsn=shop.target_dsn)
        with locker.transaction():
            locker.execute("lock table noted")
            shop.source.execute("update item set price = 2")
            tick = shop.tick()
            waits = "select from pg_locks where not granted and relation = 'noted'::regclass"
            eventually(lambda: shop.target.execute(waits).fetchall())
            assert shop.target.execute(END, [TARGET]).fetchall()
        eventually(lambda: shop.position() == tick)
    assert noted() == [(1, 1), (1, 2)]
    assert "the batch could not be applied" in caplog.text


def test_a_target_that_is_away_is_tried_until_it_is_back(shop, items):
    name = psycopg.sql.Identifier(shop.target.info.dbname)
    allow = psycopg.sql.SQL("alter database {} allow_connections {}")
    with shop.running() as running:
        shop.source.execute("insert into item values (1, 'a', 1)")
        shop.wait()
        shop.source.execute(allow.format(name, psycopg.sql.SQL("false")))
        shop.target.execute(END, [TARGET])
        shop.source.execute("update item set price = 2")
        tick = shop.tick()
        eventually(lambda: running.consumer._failures > 0)
        shop.source.execute(allow.format(name, psycopg.sql.SQL("true")))
        eventually(lambda: shop.position() == tick)
    shop.assert_same("item")


def test_a_batch_that_the_target_does_not_expect_stops_the_mirror(shop, items):
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.run()
    shop.source.execute("insert into item values (2, 'b', 2)")
    shop.client.seek_consumer(QUEUE, NAME, shop.tick())
    shop.source.execute("insert into item values (3, 'c', 3)")
    shop.tick()
    with pytest.raises(PgqError, match=re.escape("public.pgqpy_mirror")):
        shop.mirror().run()
    assert len(items()) == 1
    shop.target.execute("delete from public.pgqpy_mirror")
    shop.run()
    assert [row[0] for row in items()] == [1, 3]


def test_a_large_batch_is_applied_as_a_whole_or_not_at_all(shop, items, monkeypatch):
    monkeypatch.setattr(module, "PAGE_EVENTS", 10)
    shop.source.execute("insert into item select n, 'a', 1 from generate_series(1, 95) n")
    shop.target.execute("insert into item values (0, 'z', 0); alter table item add check (id < 90)")
    shop.tick()
    with pytest.raises(psycopg.errors.CheckViolation):
        shop.mirror(part_size=20).run()
    assert len(items()) == 1
    assert shop.target.execute(FENCE).fetchall() == []
    shop.target.execute("alter table item drop constraint item_id_check")
    shop.run(part_size=20)
    assert len(items()) == 96


def test_a_mirror_stops_in_the_middle_of_a_batch(shop, items, monkeypatch):
    mirror = shop.mirror()
    monkeypatch.setattr(module, "PAGE_EVENTS", 10)
    monkeypatch.setattr(module._TargetSession, "write", lambda *_: mirror.stop())
    shop.source.execute("insert into item select n, 'a', 1 from generate_series(1, 95) n")
    tick = shop.tick()
    mirror.run()
    assert shop.position() != tick
    monkeypatch.undo()
    shop.run()
    shop.assert_same("item")


MEMORY = """
import resource, sys
from pgqpy import Mirror

class Measured(Mirror):
    def process_batch(self, batch):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        super().process_batch(batch)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print("grown", grown << 10, batch.size, flush=True)
        self.stop()

Measured(sys.argv[1], queue={queue!r}, name={name!r}, target=sys.argv[2]).run()
"""


def test_a_batch_of_200_000_rows_takes_little_memory(shop, items, spawn):
    shop.source.execute("""
        insert into item select n, repeat('x', 200), n from generate_series(1, 200000) n""")
    shop.tick()
    process = spawn(
        "-c", MEMORY.format(queue=QUEUE, name=NAME), shop.dsn, shop.target_dsn, fresh=True
    )
    assert process.wait(120) == 0, process.output()
    _, grown, events = process.output().split()
    assert int(events) == 200_000  # the data alone take 50 MB
    assert int(grown) < 30 << 20
    assert shop.target.execute("select count(*) from item").fetchone() == (200_000,)
