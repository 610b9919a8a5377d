"""The rows of a copy come between the changes that it has seen and those that it has not."""

from __future__ import annotations

import re
import signal
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pgqpy import table_copy
from tests.capture.captured import capture, chunk, events, kv, mirrored, receive_all, reserve, rows
from tests.guarantees.sessions import RR, refused
from tests.support.gates import shut_gate, wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.client import Client
    from tests.cli.support import Run, Spawn
    from tests.guarantees.sessions import Database, Session
    from tests.support.gates import Gate

    Copy = Callable[..., list[str]]

COPY = "select rows from pgq.copy_chunk('q', 'kv', '{id}', 0, 99, %s)"
SHARED = "select pgq.register_shared_consumer('q', 's', 'extra1')"
ROWS = 4000  # of half_full
HALF = """
    create table kv (id int primary key, v text);
    insert into kv select n, repeat('x', 80) from generate_series(1, 8000) n;
    delete from kv where id % 2 = 0"""
# The command, with a line for each chunk, as a copy of hours prints them.
SNAPSHOT = """
import sys
from pgqpy.cli import app, capture
capture.LINE = 0
app.app(["capture", "snapshot", "public.kv", *sys.argv[1:]])
"""


def copying(db: Database) -> Session:
    """Return a session that has copied the table kv, and has not committed."""
    ids, session = reserve(db.main), db.open()
    session.run("begin")
    assert chunk(session, ids)[0] == 2
    return session


def test_no_tick_comes_between_a_chunk_and_a_change_that_it_does_not_see(db: Database) -> None:
    kv(db)
    copier, ticker = copying(db), db.open()
    db.main.run("update kv set v = 'new' where id = 1; delete from kv where id = 2")
    tick = ticker.later("select tick_id from pgq.tick_queue('q')")
    assert wait_until_blocked(db.main.connection, ticker.pid) == [copier.pid]
    copier.commit()
    tick.result(timeout=30)
    assert mirrored(db) == {"1": {"id": 1, "v": "new"}}


def test_a_refill_beside_a_chunk_takes_what_the_last_tick_sees(db: Database) -> None:
    kv(db)
    db.main.one(SHARED)
    db.main.run("update kv set v = 'before' where id = 1")
    db.main.tick()
    copier = copying(db)
    db.main.run("update kv set v = 'new' where id = 1; delete from kv where id = 2")
    state = receive_all(db.main, {})
    assert state == {"1": {"id": 1, "v": "before"}}
    copier.commit()
    assert receive_all(db.main, state) == rows(db.main)
    db.main.run("delete from kv")
    assert receive_all(db.main, state) == {}


def test_who_has_refilled_keeps_a_copy_waiting_but_no_tick(db: Database) -> None:
    kv(db)
    db.main.one(SHARED)
    ids = reserve(db.main)
    db.main.run("insert into kv values (3, 'new')")
    receiver, copier = db.open(), db.open()
    receiver.run("begin")
    assert len(receive_all(receiver, {})) == 1
    copied = copier.later(COPY, ids)
    assert wait_until_blocked(db.main.connection, copier.pid) == [receiver.pid]
    db.main.run("set lock_timeout = '1s'")
    assert db.main.tick()
    receiver.commit()
    assert copied.result(timeout=30) == 3


def test_rows_get_the_reserved_ids_in_turn_and_later_changes_larger_ones(db: Database) -> None:
    kv(db)
    ids = reserve(db.main, 3)
    db.main.run("update kv set v = 'new' where id = 1")
    copied, left, blocks, _ = chunk(db.main, ids)
    assert (copied, blocks, [each.upper - each.lower for each in left]) == (2, 1, [1])
    kinds = [event.type.removeprefix("public.kv.") for event in events(db)]
    assert kinds == ["snapshot", "snapshot", "update"]
    with refused("PQ009"):
        chunk(db.main, left)
    db.main.run('alter table kv disable trigger "!pgq_capture"')
    with refused("PQ009"):
        chunk(db.main, ids)


def test_a_chunk_is_a_transaction_of_its_own(db: Database) -> None:
    kv(db)
    ids = reserve(db.main)
    for begin in (f"begin isolation level {RR}", "begin; update kv set v = 'mine'"):
        db.main.run(begin)
        with refused("PQ013", "25001"):
            chunk(db.main, ids)
        db.main.rollback()


@pytest.fixture
def writer(db: Database) -> Session:
    """A session whose open transaction has changed a row of kv."""
    kv(db)
    session = db.open()
    session.run("begin; update kv set v = 'new' where id = 1")
    return session


@pytest.fixture
def copy(client: Client, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """`copy(step, step)`: copy kv as the command does, with a step for each poll for writers."""

    def copier(*steps: Callable[[], object]) -> list[str]:
        left, told = list(steps), list[str]()
        seconds = partial(next, count())  # at the second poll, a line names the writers
        fake = SimpleNamespace(sleep=lambda _: left.pop(0)(), monotonic=seconds)
        monkeypatch.setattr(table_copy, "time", fake)
        client.connection.execute("set statement_timeout = '20s'")
        found = table_copy.find_capture(client, "public.kv")
        list(table_copy.copy_table(client, found, "kv", (0, None), told.append))
        assert left == []
        return told

    return copier


def test_a_writer_that_took_an_id_before_the_reservation_holds_the_copy_up(
    db: Database, copy: Copy, writer: Session
) -> None:
    copy(lambda: None, writer.commit)
    assert mirrored(db) == {"1": {"id": 1, "v": "new"}, "2": {"id": 2, "v": "old"}}


def test_a_prepared_transaction_is_waited_for(db: Database, copy: Copy, writer: Session) -> None:
    told = copy(
        lambda: writer.run("prepare transaction 'two'"),
        lambda: None,
        lambda: writer.run("commit prepared 'two'"),
    )
    waits = "waits for the end of a transaction that writes to kv: a prepared transaction"
    assert told == [waits]
    assert mirrored(db)


def test_who_begins_to_write_later_is_not_waited_for(
    db: Database, copy: Copy, writer: Session
) -> None:
    later = db.open()
    copy(lambda: later.run("begin; update kv set v = 'later' where id = 2"), writer.commit)
    later.commit()
    assert mirrored(db)


# A cast that the server refuses as if the chunk were too large, for one row, once.
REFUSES = """
    create sequence handled; create type colour as enum ('red');
    create function write(colour) returns json language plpgsql as $$ begin
        if nextval('public.handled') = 500 then
            raise exception 'too large' using errcode = 'program_limit_exceeded';
        end if;
        return '"red"';
    end $$;
    create cast (colour as json) with function write(colour);
    grant usage on sequence handled to pgq_capture;
    alter table kv add c colour not null default 'red'"""


def test_a_chunk_that_is_too_large_is_copied_by_smaller_ones(
    db: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.main.run(HALF)
    db.main.run(REFUSES)
    db.main.one("select pgq.add_capture('q', 'kv')")
    found = table_copy.find_capture(client, "public.kv")
    monkeypatch.setattr(table_copy, "time", SimpleNamespace(monotonic=lambda: 0.0))  # chunks grow
    places = list(table_copy.copy_table(client, found, "kv", (0, None), print))
    sizes = [place.block - before.block for before, place in pairwise(places)]
    assert sizes[:4] == [2, 4, 4, 8]  # blocks; first, 8 were refused after 4
    assert places[-1].rows == len(events(db)) == ROWS
    assert len(mirrored(db)) == ROWS


def test_ids_that_a_chunk_leaves_serve_the_next_ones(
    db: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture(db, "create table kv (id int primary key, v text)")
    db.main.run("alter table kv alter v set storage plain")
    db.main.run("insert into kv select n, repeat('x', 5000) from generate_series(1, 100) n")
    first = reserve(db.main, 1)[0].lower or 0
    monkeypatch.setattr(table_copy, "time", SimpleNamespace(monotonic=lambda: 0.0))  # chunks grow
    monkeypatch.setattr(table_copy, "LARGEST", 4)
    monkeypatch.setattr(table_copy, "IDS", 3 * table_copy.ROWS)  # less than the largest needs
    captured = table_copy.find_capture(client, "public.kv")
    places = list(table_copy.copy_table(client, captured, "public.kv", (0, None), print))
    assert (len(places), places[-1].rows) == (27, 100)
    assert (reserve(db.main, 1)[0].lower or 0) in range(first, first + 3000)


def test_a_truncation_is_waited_for(db: Database, copy: Copy) -> None:
    kv(db)
    writer = db.open()
    writer.run("begin; truncate kv")
    copy(writer.commit)
    assert mirrored(db) == {}


def test_the_command_tells_whom_it_waits_for(
    db: Database, dsn: str, writer: Session, spawn: Spawn
) -> None:
    command = ("-m", "pgqpy", "capture", "snapshot", "public.kv")
    process = spawn(*command, env={"PGQPY_DSN": dsn})
    waits = "waits for the end of a transaction that writes to public.kv: processes"
    process.wait_for_output(f"{waits} {writer.pid}")
    assert events(db) == []
    writer.commit()
    assert process.wait() == 0
    assert "copied 2 row(s) of public.kv" in process.output()
    assert mirrored(db)


@pytest.mark.parametrize("change", ["alter table kv alter v type varchar(9)", "truncate kv"])
def test_a_chunk_that_waits_for_a_rewrite_loses_no_row_and_keeps_no_tick_away(
    db: Database, change: str
) -> None:
    kv(db)
    ids, rewriter, copier = reserve(db.main), db.open(), db.open()
    rewriter.run(f"begin; {change}")
    copied = copier.later(COPY, ids)
    assert wait_until_blocked(db.main.connection, copier.pid) == [rewriter.pid]
    db.main.run("set lock_timeout = '1s'")
    assert db.main.tick()
    rewriter.commit()
    assert copied.result(timeout=30) == len(rows(db.main))
    assert mirrored(db) == rows(db.main)


@pytest.mark.parametrize("change", ["vacuum full kv", "truncate kv"])
def test_a_rewrite_waits_for_a_chunk(db: Database, change: str) -> None:
    kv(db)
    copier, rewriter = copying(db), db.open()
    waits = rewriter.later(change)
    assert wait_until_blocked(db.main.connection, rewriter.pid) == [copier.pid]
    copier.commit()
    assert "produce records" in str(waits.exception(timeout=30))  # it ended
    assert len(mirrored(db)) == (2 if "vacuum" in change else 0)


@pytest.fixture
def half_full(db: Database) -> str:
    """The table kv, in which a rewrite moves nearly all rows; a place in it."""
    capture(db, HALF)
    return "30@" + str(db.main.one("select pg_relation_filenode('kv')"))


def test_a_place_in_a_table_that_was_rewritten_since_is_not_taken(
    db: Database, run: Run, half_full: str
) -> None:
    db.main.run("vacuum full kv")
    result = run("snapshot", "public.kv", "--from", half_full)
    assert result.exit_code == 0, result.stderr
    assert "public.kv was rewritten: its copy begins again" in result.stderr
    assert len(mirrored(db)) == ROWS


@pytest.fixture
def gate(db: Database, half_full: str) -> Iterator[Gate]:
    """A gate before the event of a row in the middle of the table."""
    assert half_full
    with shut_gate(db.open().connection) as gate:
        wait = gate.wait_sql.replace("select", "perform", 1)
        db.main.run(f"""
            create function wait() returns trigger language plpgsql as
                $$ begin {wait}; return null; end $$;
            create trigger wait after insert on {db.main.current_table()} for each row
                when (new.ev_extra1 = '5001' and new.ev_type like '%.snapshot')
                execute function wait()""")
        yield gate


@pytest.mark.parametrize("how", ["killed", "ended", "interrupted"])
def test_a_copy_goes_on_at_the_printed_place(
    db: Database, dsn: str, gate: Gate, spawn: Spawn, how: str
) -> None:
    process = spawn("-c", SNAPSHOT, env={"PGQPY_DSN": dsn})
    backend = gate.wait_for_arrival()
    process.signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
    assert process.wait() != 0
    output = process.output()
    place = re.findall(r"--from (.*)" if how == "interrupted" else r"block (\S+) of", output)[-1]
    if how == "ended":  # a chunk that a killed copy has begun is committed, unless its server ends
        db.main.one("select pg_terminate_backend(%s, 30000)", backend)
    gate.open()
    db.main.run("update kv set v = 'new' where id < 1000; delete from kv where id > 7000")
    again = spawn("-c", SNAPSHOT, "--from", place, env={"PGQPY_DSN": dsn})
    assert again.wait() == 0, again.output()
    assert len([each for each in events(db) if each.type.endswith("snapshot")]) < ROWS * 1.5
    assert mirrored(db)
