"""Which tables and queues can be captured, and what `pgqpy capture list --check` tells of them."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pgqpy.cli.app import app
from tests.capture.captured import capture, chunk, events, kv, reserve
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.cli.support import Run
    from tests.guarantees.sessions import Database

KV = "create table kv (id int primary key, v text)"
NO_KEY = "it has no primary key, and no unique index of NOT NULL columns"
PARTIAL = "create table kv (id int not null); create unique index on kv (id) where id > 0"
EXPRESSION = "create table kv (id int not null); create unique index on kv (abs(id))"
FOREIGN = """
    create foreign data wrapper w; create server s foreign data wrapper w;
    create foreign table {} server s"""
PARTITION = """
    create table parent (id int primary key) partition by range (id);
    create table kv partition of parent default"""
FOREIGN_PARTITION = f"""
    create table kv (id int not null) partition by range (id);
    {FOREIGN.format("part partition of kv default")}"""


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("create table kv (id int)", NO_KEY),
        ("create table kv (id int unique)", NO_KEY),
        (PARTIAL, NO_KEY),
        (EXPRESSION, NO_KEY),
        ("create table kv (id int primary key deferrable)", NO_KEY),
        ("create table kv (id int not null unique initially deferred)", NO_KEY),
        ("create unlogged table kv (id int primary key)", "it is unlogged"),
        (FOREIGN.format("kv (id int not null)"), "it is no table"),
        ("create view kv as select 1 as id", "it is no table"),
        (f"{KV}; create table heir () inherits (kv)", "other tables inherit from it"),
        (PARTITION, "it is a partition: capture public.parent"),
        (FOREIGN_PARTITION, "one of its partitions is a foreign table"),
    ],
)
def test_a_table_that_cannot_be_captured(db: Database, run: Run, ddl: str, why: str) -> None:
    db.main.run(ddl)
    result = run("add", "public.kv", "--queue", "q")
    assert result.exit_code == 1
    assert f"table public.kv cannot be captured: {why}" in result.stderr
    assert db.main.all("select from pgq.get_captures()") == []


@pytest.mark.parametrize("table", ["pgq.queue", "pg_catalog.pg_class", "pg_temp.mine"])
def test_tables_of_the_system_and_temporary_ones_are_refused(db: Database, table: str) -> None:
    db.main.run("create temporary table mine (id int primary key)")
    with refused("PQ009") as failed:
        db.main.one("select pgq.add_capture('q', %s)", table)
    assert ("temporary" if "mine" in table else "system") in str(failed.value)


@pytest.mark.parametrize(
    ("index", "key"),
    [
        ("primary key (b, a), unique (a)", ["b", "a"]),
        ("unique (a, b), unique (b)", ["b"]),
        ("unique (b) include (a), unique (c)", ["b"]),
    ],
)
def test_the_key_is_of_columns_that_are_not_null(db: Database, index: str, key: list[str]) -> None:
    capture(db, f"create table kv (a int not null, b int not null, c int, {index})")
    assert db.main.one("select key_columns from pgq.get_captures()") == key


def test_a_table_has_one_queue_and_may_be_added_to_it_again(db: Database, run: Run) -> None:
    kv(db)
    db.queue("other", consumers=())
    taken = run("add", "public.kv", "--queue", "other")
    assert "table public.kv is captured by queue q; pgqpy capture remove public.kv" in taken.stderr
    assert run("add", "public.kv", "--queue", "q").exit_code == 0
    assert "no longer captured" in run("remove", "public.kv").stderr
    assert "was not captured" in run("remove", "public.kv").stderr
    assert run("add", "public.kv", "--queue", "other").exit_code == 0


def test_a_queue_whose_ticks_come_from_elsewhere_is_refused(db: Database) -> None:
    kv(db)
    ids = reserve(db.main)
    db.main.one("select pgq.set_queue_config('q', 'external_ticker', '1')")
    with refused("PQ009"):
        db.main.one("select pgq.add_capture('q', 'kv')")
    for call in (lambda: reserve(db.main), lambda: chunk(db.main, ids)):
        with refused("PQ011"):
            call()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("add public.kv --queue no", "no queue 'no' in this database"),
        ("add public.no --queue q", "no table public.no: write schema.table"),
        ("add kv --queue q", "no table kv: write schema.table"),
        ("add no.kv --queue q", "no table no.kv: write schema.table"),
        ("remove kv", "no table kv: write schema.table"),
        ("snapshot public.no", "no table public.no: write schema.table"),
        ("snapshot public.kv", "not captured: pgqpy capture add public.kv --queue QUEUE"),
        ("snapshot public.kv --from 1@", "is no place in a table"),
    ],
)
def test_what_is_missing_is_named(db: Database, run: Run, command: str, words: str) -> None:
    db.main.run(KV)
    result = run(*command.split())
    assert result.exit_code in (1, 2)
    assert words in result.stderr


def test_commands_in_messages_name_tables_as_the_shell_and_sql_need_it(
    db: Database, run: Run
) -> None:
    name = 'public."Odd \'n"'
    db.main.run(f"create table {name} (id int primary key)")
    added = run("add", name, "--queue", "q").stderr
    (snapshot,) = re.findall("pgqpy capture snapshot (.*)", added)
    assert run("snapshot", *shlex.split(snapshot)).exit_code == 0
    with refused("2BP01") as failed:
        db.main.one("select pgq.drop_queue('q')")
    assert failed.value.diag.message_hint == f"pgqpy capture remove {name}"


@pytest.mark.parametrize("force", [False, True])
def test_a_queue_that_captures_tables_is_not_dropped(db: Database, force: bool) -> None:
    kv(db)
    capture(db, "create table a (id int primary key)", "a")
    with refused("2BP01") as failed:
        db.main.one("select pgq.drop_queue('q', %s)", force)
    assert failed.value.diag.message_detail == "queue q, tables public.a public.kv"
    assert failed.value.diag.message_hint == "pgqpy capture remove public.a public.kv"


@pytest.mark.parametrize(
    "change", ["select pgq.drop_queue('q', true)", "select pgq.rename_queue('q', 'p')"]
)
def test_a_table_that_is_added_meanwhile_keeps_its_queue(db: Database, change: str) -> None:
    db.main.run(KV)
    one, other = db.open(), db.open()
    one.run("begin; select pgq.add_capture('q', 'kv')")
    changes = other.later(change)
    blocked = wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert blocked == [one.pid]
    with refused("2BP01"):
        changes.result(timeout=30)


def test_a_renamed_queue_goes_on_capturing(db: Database, dsn: str) -> None:
    kv(db)
    db.main.run("create table a (id int primary key)")
    db.main.one("select pgq.add_capture('q', 'a', true)")
    with refused("2BP01") as failed:
        db.main.one("select pgq.rename_queue('q', 'p')")
    assert '"!pgq_capture" of public.kv' in str(failed.value.diag.message_detail)
    assert "pgqpy queue rename" in str(failed.value.diag.message_hint)
    renamed = CliRunner().invoke(app, ["--dsn", dsn, "queue", "rename", "q", "p"])
    assert renamed.stderr == "queue q is now p\n"
    db.main.run("insert into kv values (3, 'new'); set session_replication_role = replica")
    db.main.run("insert into a values (1)")
    assert [event.type for event in events(db)] == ["public.kv.insert", "public.a.insert"]
    captures = "select queue_name, table_name, always from pgq.get_captures()"
    assert db.main.all(captures) == [("p", "public.a", True), ("p", "public.kv", False)]


PARTS = """
    create table p (id int primary key, n int not null) partition by range (id);
    create table p1 partition of p for values from (0) to (10);
    create table p2 partition of p for values from (10) to (20) partition by range (id);
    create table p3 partition of p2 for values from (10) to (20)"""
FIRST = """
    create function f() returns trigger language plpgsql as 'begin return null; end';
    create trigger " first" after update on p3 for each row execute function f()"""
KEYLESS = "alter table p drop constraint p_pkey"
ATTACHED = """
    create table p5 (id int primary key, n int not null);
    commit;
    alter table p attach partition p5 for values from (50) to (60)"""
NO_QUEUE = "set session_replication_role = replica; delete from pgq.queue"
DISABLED = "select pgq.set_queue_config('q', 'disable_insert', '1')"
UNLOGGED = "alter table p1 set unlogged"
LASTING = (
    FIRST,
    KEYLESS,
    NO_QUEUE,
    DISABLED,
    UNLOGGED,
)  # to capture the table again does not solve them
UNTRUNCATED = 'the trigger "!pgq_truncate" is missing or disabled'
MISSING = 'the trigger "!pgq_capture" is missing or disabled on public.p'
ALTERED = "columns were added or altered, which is no event:"
PROBLEMS = [
    ('drop trigger "!pgq_truncate" on p', UNTRUNCATED),
    ('alter table p disable trigger "!pgq_truncate"', UNTRUNCATED),
    ('alter table p disable trigger "!pgq_capture"', f"{MISSING}, public.p1, public.p2, public.p3"),
    ('alter table p1 disable trigger "!pgq_capture"', f"{MISSING}1"),
    ('alter table p3 enable replica trigger "!pgq_capture"', f"{MISSING}3"),
    (FIRST, 'before the trigger "!pgq_capture" come others: " first" of public.p3'),
    ("alter table p rename to r", "its events have its old name public.p"),
    (f"{KEYLESS}; alter table p add primary key (id, n)", "its key is not (id) any more"),
    (KEYLESS, "its key is not (id) any more"),
    ("alter table p rename id to nr", "its key is not (id) any more"),
    ("alter table p add w int default 7", f"{ALTERED} w"),
    ("alter table p alter n type bigint", f"{ALTERED} n"),
    (ATTACHED, "partitions were attached, which is no event: public.p5"),
    (UNLOGGED, "a crash empties unlogged tables without an event: public.p1"),
    (DISABLED, "inserts into queue q are disabled: writes fail"),
    (NO_QUEUE, "queue q does not exist: writes fail"),
]


def problems(run: Run) -> list[str]:
    """Return the problems of the first captured table; check the exit code."""
    result = run("list", "--check", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == bool(found), result.output
    return list(found[0]["problems"]) if found else []


@pytest.mark.parametrize(("change", "problem"), PROBLEMS)
def test_a_problem_is_told_and_solved_by_adding_the_table_again(
    db: Database, run: Run, change: str, problem: str
) -> None:
    capture(db, PARTS, "p")
    assert problems(run) == []
    db.main.run(change)
    assert problem in problems(run)
    if change not in LASTING:
        table = db.main.one("select table_id::text from pgq.get_captures()")
        db.main.one("select pgq.add_capture('q', %s)", table)
        assert problems(run) == []


def test_a_table_that_others_inherit_from_later_is_told(db: Database, run: Run) -> None:
    kv(db)
    db.main.run("create table heir () inherits (kv)")
    told = "tables inherit from it, and their rows bring no event: public.heir"
    assert problems(run) == [told]


def test_a_name_that_events_of_a_renamed_table_have_is_refused(db: Database, run: Run) -> None:
    kv(db)
    db.main.run("alter table kv rename to old; create table kv (id int primary key, v text)")
    taken = run("add", "public.kv", "--queue", "q")
    assert taken.exit_code == 1
    assert (
        "table public.old has events with the name public.kv; pgqpy capture add public.old"
        in taken.stderr
    )
    assert run("add", "public.old", "--queue", "q").exit_code == 0
    assert run("add", "public.kv", "--queue", "q").exit_code == 0
    db.main.run("truncate old")
    assert events(db)[-1].type == "public.old.truncate"


def test_what_is_no_problem(db: Database, run: Run) -> None:
    capture(db, PARTS, "p")
    db.main.run("create table p4 partition of p for values from (20) to (30); truncate p")
    db.main.run("vacuum full p1")
    db.main.run("create index on p (n); alter table p drop n")
    checked = run("list", "--check")
    assert checked.exit_code == 0
    assert "nothing is wrong with the captured tables" in checked.stderr
    (found,) = json.loads(run("list", "--json").stdout)
    assert (found["queue_name"], found["table_name"], found["key_columns"]) == (
        "q",
        "public.p",
        ["id"],
    )


def test_a_virtual_column_is_null_in_events(db: Database, run: Run) -> None:
    if db.main.connection.info.server_version < 180000:
        return  # there is no such column
    capture(db, "create table kv (id int primary key, twice int generated always as (id * 2))")
    assert problems(run) == ["virtual columns are null in events: twice"]
    assert "pgqpy capture snapshot TABLE copies" in run("list", "--check").stderr


SHARED = "select pgq.register_shared_consumer('q', 's', 'extra1')"
FILTER = "select pgq.set_consumer_filter('q', 's', %s)"
CHANGES = '{"types": ["public.kv.insert", "public.kv.update", "public.kv.delete"]}'


def test_a_consumer_with_a_key_takes_no_truncate(db: Database) -> None:
    """A TRUNCATE has no key: it could be handled before changes that came earlier."""
    db.main.one(SHARED)
    db.main.run(KV)
    with refused("PQ020") as failed:
        db.main.one("select pgq.add_capture('q', 'kv')")
    assert "consumer s has a key" in str(failed.value)
    db.main.one(FILTER, CHANGES)
    db.main.one("select pgq.add_capture('q', 'kv')")
    for taken in ('{"types": ["public.*"]}', None):
        db.main.one(FILTER, taken)
        with refused("PQ020"):
            db.main.one("select pgq.hold('q', 's', 'host:1')")
    db.main.one(FILTER, '{"extra1": ["1"]}')
    assert db.main.one("select pgq.hold('q', 's', 'host:1')") is not None
