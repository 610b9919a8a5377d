"""The engine works whatever a database, a role or a session sets as its default."""

from __future__ import annotations

import re

from psycopg import sql

from pgqpy import install
from tests.support.tree import ROOT

# Each changes how PostgreSQL reads or writes SQL, and so what generated code means.
SETTINGS = {
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "intervalstyle": "sql_standard",
    "check_function_bodies": "off",
    "plpgsql.extra_errors": "'all'",
}
NAME, DATA = 'o\'r\\d "e"rs', r"a\b'c\\d"  # what must be quoted
COMMENT, CONTINUED = re.compile(r"--.*"), re.compile(r"'\s*\n\s*'")
LITERAL = re.compile(r"(E?)'((?:[^']|'')*)'")


def test_engine_works_where_a_database_reads_and_writes_sql_otherwise(connect, empty_dsn):
    for setting, value in SETTINGS.items():
        admin = connect(empty_dsn)
        database = sql.Identifier(admin.info.dbname)
        alter = sql.SQL("alter database {} set {} = {}")
        admin.execute(alter.format(database, sql.SQL(setting), sql.SQL(value)))
    connection = connect(empty_dsn)
    assert connection.execute("show standard_conforming_strings").fetchone() == ("off",)

    def call(function, *params):
        marks = sql.SQL(", ").join([sql.Placeholder()] * len(params))
        query = sql.SQL("select * from pgq.{}({})").format(sql.Identifier(function), marks)
        row = connection.execute(query, params).fetchone()
        return row and row[0]

    def read(batch):
        query = "select ev_data from pgq.get_batch_cursor(%s, 'all', 10)"
        with connection.transaction():
            return [data for (data,) in connection.execute(query, [batch])]

    install.install(connection)
    assert call("create_queue", NAME) == 1
    install.install(connection)
    assert call("register_consumer", NAME, "c") == 1
    for parameter, value in {"ntables": "4", "rotation_period": "0", "ticker_max_lag": "0"}.items():
        call("set_queue_config", NAME, parameter, value)
    call("insert_event", NAME, "t", DATA)
    call("insert_event", NAME, "t", DATA, "1", None, "3", "4")
    call("insert_events", NAME, ["t"], [DATA])
    with connection.transaction():
        stage = call("open_stage", NAME, "w", 1)
        call("insert_event", NAME, "t", DATA)
    assert call("commit_stage", NAME, "w", 1, [stage], 1) == 1
    assert call("ticker") == 1
    batch = call("next_batch", NAME, "c")
    assert read(batch) == [DATA] * 4
    assert call("batch_retry", batch, 0) == 4
    assert call("finish_batch", batch) == 1
    assert call("maint_retry_events") == 4
    call("maint_rotate_tables_step1", NAME)
    call("maint_rotate_tables_step2")
    call("tick_queue", NAME)
    assert (call("maint_history"), call("maint_history")) == (1, 0)
    assert call("repair_queue", NAME) == 8
    assert read(call("next_batch", NAME, "c")) == [DATA] * 4
    assert call("drop_queue", NAME, True) == 1


def test_no_plain_literal_holds_a_backslash():
    # With standard_conforming_strings off it is an escape there; in E'' it always is.
    for path in (ROOT / "schema").rglob("*.sql"):
        text = CONTINUED.sub("", COMMENT.sub("", path.read_text()))
        plain = [body for prefix, body in LITERAL.findall(text) if not prefix]
        assert [body for body in plain if "\\" in body] == [], path
