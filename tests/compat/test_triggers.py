"""Triggers made for PGQ: the same events and errors from its C triggers and from ours."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgqpy import install
from tests.support.databases import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIGGERS = ("jsontriga", "logutriga", "sqltriga")
EVENTS = (
    "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    " from pgq.event_1 order by ev_id"
)
# Values that differ in how types, and the settings of a session, write them.
TYPES = {
    "boolean": ["true", "false"],
    "smallint": ["-32768"],
    "integer": ["2147483647"],
    "bigint": ["9223372036854775807", "-9223372036854775808"],
    "numeric": ["0.10", "1e30", "NaN"],
    "numeric(40,15)": ["100100.600500566501811"],
    "real": ["1.1", "Infinity"],
    "float": ["1e-7", "-0", "NaN", "0.1"],
    "money": ["12.5"],
    "oid": ["100200300"],
    "text": [
        "",
        " ",
        "a b",
        "it's",
        '"quoted\\string$%,@&=+~"',
        "\u00e9\u20ac\U0001f600",
        "a\n\tb",
    ],
    "varchar(9)": ["x  "],
    "char(5)": ["ab"],
    '"char"': ["c"],
    "name": ["n"],
    "bytea": ["\\x00ff01"],
    "date": ["2009-09-19", "infinity", "0044-03-15 BC"],
    "time": ["11:59:48.599"],
    "timetz": ["11:59:48.599+02"],
    "timestamp": ["2009-09-19 11:59:48.599", "-infinity", "2009-09-19"],
    "timestamptz": ["2009-09-19 11:59:48.599+02", "infinity", "2009-01-19 00:00+00"],
    "interval": ["2 minutes", "-1 year 3 days"],
    "json": ['{"a": [false, null, true]}', "[1,  2]", '"\\u00e9 \\\\ \\u0000"'],
    "jsonb": ['{"b": 1, "a": "\\u00e9"}'],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "inet": ["10.0.0.1", "10.0.0.0/8", "::1"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "bit(3)": ["101"],
    "box": ["((1.1, 2.1), (5.6, 5.7))"],
    "point": ["(1,2)"],
    "int4range": ["[1,5)"],
    "tsvector": ["a fat cat"],
    "integer[]": ["{1,NULL,3}", "{}", "{{1,2},{3,4}}"],
    "text[]": ['{a,"b c",NULL,"NULL","\\"\\\\"}'],
    "boolean[]": ["{t,f}"],
    "timestamptz[]": ['{"2009-09-19 11:59:48.599+02"}'],
    "mood": ["fine", "not so"],
    "positive": ["7"],
    "flag": ["true"],
    "pair": ["(1,x)", "(,)", '(2,"a ""b"" c")'],
    "pair[]": ['{"(1,x)"}'],
}
SETTINGS = [
    "set datestyle = 'iso, ymd'; set timezone = 'UTC'",
    (
        "set datestyle = 'german'; set timezone = 'Asia/Kathmandu'; set intervalstyle = 'iso_8601';"
        " set bytea_output = 'escape'; set standard_conforming_strings = off;"
        " set quote_all_identifiers = on; set extra_float_digits = 0"
    ),
]
PREPARE = """
    create type mood as enum ('fine', 'not so');
    create domain positive as integer check (value > 0);
    create domain flag as boolean;
    create type pair as (a int, b text);
"""
# Arguments, then statements on t, whose columns are id, a, "B c", n.
CASES: dict[str, tuple[str, ...]] = {
    "no argument": (),
    "ignore": ("ignore=a",),
    "ignore two": ("ignore=a, n",),
    "ignore none": ("ignore=",),
    "ignore the key": ("ignore=id",),
    "pkey": ("pkey=a",),
    "pkey of two": ("pkey=id,n",),
    "pkey with blanks": ("pkey=id, n",),
    "no pkey": ("pkey=",),
    "backup": ("backup",),
    "backup and ignore": ("backup", "ignore=n"),
    "deny": ("deny",),
    "when": ("when=n > 1",),
    "when of an older kind": ("when=coalesce(a, $$x$$) <> 'one'", "ignore=a"),
    "when is no boolean": ("when=n",),
    "when is null": ("when=null::boolean",),
    "when is a domain": ("when=(n > 1)::flag",),
    "fields": ("ev_type=$$t$$", "ev_data=n * 2", "ev_extra1=a", "ev_extra2=n > 1"),
    "more fields": ("ev_extra3=null", "ev_extra4='{1,2}'::int[]", "backup", "ev_extra2='other'"),
    "function of the search_path": ("ev_extra1=double_of(n)", "when=is_fine(a)"),
    "a query": ("ev_extra2=(select max(m) from lookup where m < n)", "ev_extra3=m from lookup"),
    "an operator of the search_path": ("ev_extra1=n <+> n",),
    "failing expression": ("ev_extra1=1 / (n - n)",),
    "unknown column": ("ev_extra1=no_column",),
    "unknown argument": ("ev_extra5=a",),
    "no known word": ("keep",),
    "upper case": ("PKEY=a",),
    "SKIP": ("SKIP",),
    "SKIP and ignore": ("SKIP", "ignore=a"),
    "SKIP and when": ("when=false", "SKIP"),
}
CHANGES = [
    "insert into t values (1, 'one', 'x y', 1)",
    "insert into t values (2, null, null, 2), (3, 'it''s \\ \u00e9', '', null)",
    "update t set a = 'new' where id = 1",
    "update t set a = 'both', n = 5 where id = 1",
    "update t set n = n where id = 1",
    "update t set a = null, \"B c\" = 'z' where id < 3",
    "update t set n = 9 where id = 3",
    "update t set id = 7 where id = 2",
    "delete from t where id = 1",
    "delete from t",
    "select * from t order by id",
]
TABLE = """
    create table t (dropped int, id int primary key, a text, "B c" text, n int);
    alter table t drop dropped;
    create table lookup (m int);
    insert into lookup values (1);
    create function double_of(int) returns int language sql as 'select $1 * 2';
    create function is_fine(text) returns boolean language sql as 'select $1 is not null';
    create operator <+> (function = int4pl, leftarg = int, rightarg = int);
"""


class Both:
    """A database with our triggers and one with PGQ's, which get the same statements."""

    def __init__(self, ours: psycopg.Connection[Any], theirs: psycopg.Connection[Any]) -> None:
        """Make a queue in both."""
        self.connections = (ours, theirs)
        self.run("select pgq.create_queue('q')")

    def run(self, *statements: str) -> None:
        """Run statements that work in both."""
        for connection in self.connections:
            for statement in statements:
                connection.execute(statement.encode())

    def differences(self, *statements: str) -> list[tuple[Any, Any]]:
        """Run statements one by one; return what differs: rows, errors, and at last the events."""
        found = [
            [_outcome(connection, statement) for statement in (*statements, EVENTS)]
            for connection in self.connections
        ]
        self.run("truncate pgq.event_1")
        return [(ours, theirs) for ours, theirs in zip(*found, strict=True) if ours != theirs]


def _outcome(connection: psycopg.Connection[Any], statement: str) -> Any:
    try:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else cursor.rowcount
    except psycopg.Error as exc:
        return exc.diag.message_primary


@pytest.fixture
def both(connect, dsn, extension_dsn) -> Both:
    return Both(connect(dsn=dsn), connect(dsn=extension_dsn))


def create(name: str, trigger: str, args: tuple[str, ...], when: str = "after") -> str:
    texts = ", ".join("'" + arg.replace("'", "''") + "'" for arg in ("q", *args))
    return (
        f"create trigger {name} {when} insert or update or delete on t"
        f" for each row execute function pgq.{trigger}({texts})"
    )


@pytest.mark.parametrize("settings", SETTINGS, ids=["iso", "others"])
def test_each_type_is_written_as_pgq_writes_it(both, settings):
    both.run(PREPARE, settings)
    for number, (type_, values) in enumerate(TYPES.items()):
        both.run(
            f"create table types_{number} (id int primary key, v {type_})",
            *(
                f"create trigger {trigger} after insert or update or delete on types_{number}"
                f" for each row execute function pgq.{trigger}('q', 'backup')"
                for trigger in TRIGGERS
            ),
        )
        texts = [value.replace("'", "''") for value in values]
        if "standard_conforming_strings" in settings:
            texts = [value.replace("\\", "\\\\") for value in texts]
        both.run(
            f"insert into types_{number} values (0, null)",
            *(
                f"insert into types_{number} values ({at}, '{it}')"
                for at, it in enumerate(texts, 1)
            ),
            f"update types_{number} set v = null where id = 1",
            f"update types_{number} set v = '{texts[-1]}' where id = 0",
            f"delete from types_{number}",
        )
    assert both.differences() == []


@pytest.mark.parametrize("when", ["after", "before"])
def test_each_argument_does_what_it_does_in_pgq(both, when, subtests):
    both.run(TABLE)
    for case, args in CASES.items():
        changes = CHANGES
        if case.startswith("pkey"):  # sqltriga refuses a key that is null; ours writes IS NULL
            changes = [change.replace("null", "'8'") for change in CHANGES]
        for trigger in TRIGGERS:
            both.run(create("it", trigger, args, when))
            with subtests.test(case, trigger=trigger):
                assert both.differences(*changes) == []
            both.run("drop trigger it on t", "delete from t")


def test_names_are_quoted_as_pgq_quotes_them(both):
    both.run(
        'create schema "S s"', 'create table "S s"."T,\'t" ("I i" int, "a=b" text, "select" int)'
    )
    both.run('alter table "S s"."T,\'t" add primary key ("select", "I i")')
    both.run(*(create(it, it, ("backup",)).replace("on t", 'on "S s"."T,\'t"') for it in TRIGGERS))
    both.run("""insert into "S s"."T,'t" values (1, 'x', 2)""")
    both.run("""update "S s"."T,'t" set "a=b" = 'y'""", """delete from "S s"."T,'t\"""")
    assert both.differences() == []


def test_keys_that_are_written_otherwise_are_the_same_keys(both):
    both.run("create table t (id numeric, a text, at timetz, primary key (id, at))")
    both.run(*(create(it, it, ()) for it in TRIGGERS))
    both.run("insert into t values (1.0, 'x', '10:00+00')")
    changes = [f"update t set id = {key}, a = 'y{key}'" for key in ("1.00", "1", "2")]
    assert both.differences(*changes) == []


@pytest.mark.parametrize(
    "args", [(), ("ignore=a",), ("ev_extra4='mine'", "ev_extra1=_pgq_ev_data")]
)
def test_magic_columns_set_the_fields_of_the_event(both, args):
    both.run(
        "create table t (id int primary key, a text, _pgq_ev_type text, _pgq_ev_data text,"
        " _pgq_ev_extra1 text, _pgq_ev_extra2 text default 'e2', _pgq_ev_extra4 int default 4)",
        *(create(it, it, args) for it in TRIGGERS),
    )
    changes = [
        "insert into t values (1, 'x', 'type', 'data', 'e1')",
        "update t set _pgq_ev_extra4 = 5",
        "update t set a = 'z'",
        "update t set a = a",
        "delete from t",
        "alter table t add _pgq_ev_other int",
        "insert into t values (1, 'x', 'type', 'data', 'e1')",
    ]
    assert both.differences(*changes) == []


def test_truncate_is_an_event(both, subtests):
    both.run(TABLE)
    args = ("deny", "ignore=a", "pkey=a", "backup", "when=true", "SKIP")
    kinds = [(arg, when) for arg in ((), *((arg,) for arg in args)) for when in ("before", "after")]
    for (arg, when), trigger in itertools.product(kinds, TRIGGERS):
        made = create("it", trigger, arg, when).replace("insert or update or delete", "truncate")
        both.run(made.replace("each row", "each statement"))
        with subtests.test(trigger, when=when, arg=arg):
            assert both.differences("truncate t") == []
        both.run("drop trigger it on t")


def test_triggers_made_in_a_wrong_way_are_refused_with_the_same_texts(both):
    both.run(TABLE, "create table keyless (a text)")
    for trigger in TRIGGERS:
        made = create("it", trigger, ())
        changes = [
            made.replace("each row", "each statement"),
            "insert into t values (1)",
            "drop trigger it on t",
            made.replace("'q'", ""),
            "insert into t values (1)",
            "drop trigger it on t",
            made.replace("'q'", "'nope'"),
            "insert into t values (1)",
            "drop trigger it on t",
            made.replace("on t", "on keyless"),
            "insert into keyless values ('a')",
            "update keyless set a = 'b'",
            "delete from keyless",
            "drop trigger it on keyless",
        ]
        nameless = [
            (ours, theirs)
            for ours, theirs in both.differences(*changes)
            if "nope" not in str(theirs)  # 'No such queue' is one wording in all functions
        ]
        assert nameless == []


@pytest.mark.parametrize("role", ["origin", "local", "replica"])
def test_replication_roles_and_a_closed_queue_do_what_they_do_in_pgq(both, role):
    both.run(TABLE)
    both.run(*(create(it, it, ("SKIP",), "before") for it in TRIGGERS))
    both.run("alter table t enable always trigger sqltriga")
    both.run(f"set session_replication_role = {role}")
    assert both.differences("insert into t values (1)", "select id from t") == []
    both.run("update pgq.queue set queue_disable_insert = true")
    changes = ["insert into t values (2)", "update t set a = 'x'", "select id, a from t"]
    assert both.differences(*changes) == []


def test_partitions_are_captured_under_their_own_names(both):
    both.run(
        "create table t (id int primary key, a text) partition by range (id)",
        "create table t_1 partition of t for values from (0) to (10)",
        "create table t_2 (a text, id int primary key)",
        "alter table t attach partition t_2 for values from (10) to (20)",
        *(create(it, it, ("backup",)) for it in TRIGGERS),
    )
    changes = [
        "insert into t values (1, 'x'), (11, 'y')",
        "update t set a = 'z'",
        "delete from t_2",
        "delete from t",
    ]
    assert both.differences(*changes) == []


@pytest.mark.parametrize("member", [True, False])
def test_writers_of_the_table_need_the_same_rights(both, member):
    both.run(TABLE, "create role trigger_user", "grant all on t to trigger_user")
    try:
        if member:
            both.run("grant pgq_writer to trigger_user")
        for trigger, args in zip(TRIGGERS, [(), ("when=a is null",), ("deny",)], strict=True):
            both.run(create("it", trigger, args))
            both.run("set role trigger_user")
            changes = [*CHANGES[:2], "update t set a = a", "delete from t", "reset role"]
            assert both.differences(*changes) == []
            both.run("drop trigger it on t")
    finally:
        both.run("reset role", "drop owned by trigger_user", "drop role trigger_user")


@pytest.fixture
def debian_dsn(_debian) -> Iterator[str]:
    """A fresh database with our schema, on Debian's PostgreSQL 15, which has PGQ's library."""
    server, _ = _debian
    with new_database(server) as name:
        with psycopg.connect(server.dsn(name), autocommit=True) as connection:
            install.install(connection)
        yield server.dsn(name)


def test_triggers_in_c_work_on_our_schema(connect, debian_dsn, extension_dsn):
    both = Both(connect(dsn=debian_dsn), connect(dsn=extension_dsn))
    for trigger in TRIGGERS:
        both.connections[0].execute(
            f"create or replace function pgq.{trigger}() returns trigger language c"
            f" as '$libdir/pgq_triggers', 'pgq_{trigger}'".encode()
        )
    both.run(TABLE, *(create(it, it, ("backup", "ev_extra3=a")) for it in TRIGGERS))
    assert both.differences(*CHANGES) == []
