"""Contract 1.2: creating, configuring and dropping queues."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest

OBJECTS = """
    select (select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace
             where nspname = 'pgq' and relname like 'event\\_%%' and relname <> 'event_template')
         + (select count(*) from pg_proc p join pg_namespace n on n.oid = pronamespace
             where nspname = 'pgq' and prosrc ~ 'pgq[.]event_[0-9]')
"""


def error(sql, statement, *params):
    with pytest.raises(psycopg.Error) as caught:
        sql(statement, *params)
    return caught.value


def test_create_queue_returns_one_for_new_and_zero_for_existing(sql):
    assert sql("select pgq.create_queue('q')") == 1
    assert sql("select pgq.create_queue('q')") == 0
    assert sql("select count(*) from pgq.tick") == 1, "a new queue has its first tick"


def test_queue_created_after_the_snapshot_is_a_serialization_failure(sql, connect):
    other = connect(autocommit=False)
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other.execute("select count(*) from pgq.queue")
    sql("select pgq.create_queue('q')")
    with pytest.raises(psycopg.errors.SerializationFailure):
        other.execute("select pgq.create_queue('q')")


def test_invalid_queue_name_is_refused_and_creates_nothing(sql):
    for name in (None, "", "a\nb", "a\x7f", "ä" * 30):
        assert error(sql, "select pgq.create_queue(%s)", name).sqlstate == "PQ009"
    assert sql(OBJECTS) == 0


def test_any_printable_queue_name_works(sql, subtests):
    for name in ("'; drop schema pgq; --", 'a"b', "a.b", "%s", "Ä Ö", "q" * 59):
        with subtests.test(name=name):
            assert sql("select pgq.create_queue(%s)", name) == 1
            sql("select pgq.register_consumer(%s, %s)", name, name)
            sql("select pgq.insert_event(%s, 't', 'd')", name)
            assert sql("select tick_id from pgq.tick_queue(%s)", name) == 2
            batch = sql("select pgq.next_batch(%s, %s)", name, name)
            assert sql("select ev_data from pgq.get_batch_events(%s)", batch) == "d"
            assert sql("select pgq.drop_queue(%s, true)", name) == 1


def test_drop_queue_refuses_one_with_consumers_without_force_and_an_unknown_one(sql):
    sql("select pgq.create_queue('q')")
    sql("select pgq.register_consumer('q', 'c')")
    assert error(sql, "select pgq.drop_queue('q')").sqlstate == "PQ008"
    assert sql("select count(*) from pgq.get_consumer_info('q')") == 1
    assert error(sql, "select pgq.drop_queue('nope')").sqlstate == "PQ001"


SETTABLE = [
    ("ticker_max_count", "7", 7),
    ("ticker_paused", "true", True),
    ("external_ticker", "true", True),
    ("disable_insert", "on", True),
    ("per_tx_limit", "5", 5),
    ("per_tx_limit", "", None),
    ("ntables", "5", 5),
    ("extra_maint", "{pgq.maint_ticks}", ["pgq.maint_ticks"]),
]
PERIODS = ("ticker_max_lag", "ticker_idle_period", "rotation_period")


def test_every_parameter_is_settable(sql, subtests):
    sql("select pgq.create_queue('q')")
    for param, value, column in SETTABLE:
        with subtests.test(param, value=value):
            assert sql("select pgq.set_queue_config('q', %s, %s)", param, value) == 1
            assert sql(f"select queue_{param} from pgq.queue") == column


def test_every_period_is_settable(sql):
    sql("select pgq.create_queue('q')")
    for param, value in product(PERIODS, ["7 minutes", "0"]):
        assert sql("select pgq.set_queue_config('q', %s, %s)", param, value) == 1
        assert sql(f"select queue_{param} = %s::interval from pgq.queue", value)


OUT_OF_BOUNDS = [
    ("ticker_max_count", "0"),
    ("ticker_max_count", "x"),
    ("ticker_max_count", ""),
    ("ticker_max_lag", "-1 s"),
    ("ticker_idle_period", "soon"),
    ("ticker_max_lag", "101 years"),
    ("ticker_idle_period", "300000 years"),
    ("rotation_period", "-1 s"),
    ("rotation_period", "300000 years"),
    ("per_tx_limit", "-1"),
    ("ntables", "2"),
    ("ntables", "65"),
    ("ntables", "x"),
    ("ticker_paused", "perhaps"),
    ("extra_maint", "{no.such_function}"),
    ("extra_maint", "{"),
]


def test_invalid_value_is_refused_by_parameter_name(sql, subtests):
    sql("select pgq.create_queue('q')")
    before = sql("select q::text from pgq.queue q")
    for param, value in OUT_OF_BOUNDS:
        with subtests.test(param, value=value):
            failure = error(sql, "select pgq.set_queue_config('q', %s, %s)", param, value)
            assert failure.sqlstate == "PQ009"
            assert sql("select q::text from pgq.queue q") == before


def test_unknown_parameter_is_refused_by_name(sql):
    sql("select pgq.create_queue('q')")
    failure = error(sql, "select pgq.set_queue_config('q', 'data_pfx', 'x')")
    assert failure.sqlstate == "PQ010"
    assert '"data_pfx"' in str(failure)


def test_grown_queue_writes_and_rotates_over_all_its_tables(sql):
    sql("select pgq.create_queue('q')")
    sql("select pgq.set_queue_config('q', 'ntables', '4')")
    sql("select pgq.set_queue_config('q', 'rotation_period', '1 microsecond')")
    used = set()
    for _ in range(4):
        sql("select pgq.insert_event('q', 't', 'd')")
        used.add(
            sql("select tableoid::regclass::text from pgq.event_1 order by ev_id desc limit 1")
        )
        sql("select pgq.tick_queue('q')")
        sql("select pgq.maint_rotate_tables_step1('q')")
        sql("select pgq.maint_rotate_tables_step2()")
    assert used == {f"pgq.event_1_{number}" for number in range(4)}


def test_seq_setval_never_moves_back(queue, sql):
    for sequence in ("pgq.event_1_id_seq", "pgq.event_1_tick_seq"):
        assert sql("select pgq.seq_setval(%s, 10)", sequence) == 10
        assert sql("select pgq.seq_setval(%s, 5)", sequence) == 10
        assert sql("select pgq.seq_getval(%s)", sequence) == 10


def test_seq_setval_moves_no_sequence_but_a_queues(queue, sql):
    sql("create sequence public.invoices")
    sql("set role pgq_admin")
    ours = ("pgq.batch_id_seq", "pgq.queue_queue_id_seq", "event_1_id_seq")
    for sequence in ("public.invoices", *ours):
        assert error(sql, "select pgq.seq_setval(%s, 10)", sequence).sqlstate == "PQ009"


def test_quote_fqname_quotes_at_the_first_dot(sql):
    assert sql("select pgq.quote_fqname('a b.c.d')") == '"a b"."c.d"'
    assert sql("select pgq.quote_fqname('T')") == 'public."T"'
    assert sql("select pgq.quote_fqname(null)") is None


def test_quote_fqname_is_inlined(sql):
    plan = sql("explain (verbose, format json) select pgq.quote_fqname(relname) from pg_class")
    assert "quote_ident" in str(plan)
    assert "quote_fqname" not in str(plan)


def test_tune_storage_and_grant_perms_know_the_queue(sql):
    sql("select pgq.create_queue('q')")
    assert sql("select pgq.tune_storage('q')") == 1
    assert sql("select pgq.tune_storage('nope')") == 0
    assert sql("select pgq.grant_perms('q')") == 1
    assert error(sql, "select pgq.grant_perms('nope')").sqlstate == "PQ001"
    options = sql("select reloptions from pg_class where relname = 'event_1_0'")
    assert set(options) == {"fillfactor=100", "autovacuum_enabled=off"}


FOREIGN = {
    "a column of its type": (
        "create table app.t as select 1 as n, e as ev from pgq.event_1_0 e",
        "column ev of table app.t",
    ),
    "a view": ("create view app.t as select ev_id from pgq.event_1", "view app.t"),
    "an heir": ("create table app.t () inherits (pgq.event_1)", "table app.t"),
    "a default": (
        "create table app.t (n bigint default nextval('pgq.event_1_id_seq'))",
        "column n of table app.t",
    ),
}


def test_drop_leaves_and_names_what_is_not_the_queues(queue, sql, rows, connection, subtests):
    sql("select pgq.insert_event('q', 't', 'd')")
    connection.prepare_threshold = None  # app.t is another table each time
    for made, name in FOREIGN.values():
        with subtests.test(name):
            connection.execute(f"create schema app; {made}".encode())
            before = rows("select * from app.t")
            with pytest.raises(psycopg.errors.DependentObjectsStillExist) as caught:
                sql("select pgq.drop_queue('q', true)")
            assert name in str(caught.value.diag.message_detail)
            assert caught.value.diag.message_hint
            assert rows("select * from app.t") == before
        sql("drop schema app cascade")
    assert sql("select count(*) from pgq.event_1") == 1
    assert sql("select pgq.drop_queue('q', true)") == 1
