"""Which events pass a filter, and which filters are refused."""

from __future__ import annotations

import json

import psycopg
import pytest

SET = "select pgq.set_consumer_filter('q', 'c', %s)"
READ = "select array_agg(ev_data order by ev_id) from pgq.get_batch_events(%s)"
HOSTILE = [
    "it's",
    "'; drop table pgq.queue; --",
    "back\\slash",
    "\\'",
    "100%",
    "%s %I %%",
    '"quoted"',
    "{a,b}",
    "a,b",
    "",
    " ",
    "NULL",
    "$1",
    "$sql$",
    "line\nbreak\ttab",
    "żółć 日本語 🐘",
    "E'\\047'",
    "x" * 1000,
]


def chosen(**conditions):
    return json.dumps(conditions)


@pytest.fixture
def insert(sql):
    def insert(*events):
        """Insert events of the form (type, extra1, …); the data is the number of the event."""
        for number, (kind, *extras) in enumerate(events):
            sql(
                "select pgq.insert_event('q', %s, %s, %s, %s, %s, %s)",
                *(kind, str(number), *extras, *[None] * (4 - len(extras))),
            )

    return insert


PASSES = [
    ({"types": ["a"]}, "03"),
    ({"types": ["a", "b.c"]}, "013"),
    ({"types": ["b.*"]}, "12"),
    ({"types": ["a", "b.*", "b.d"]}, "0123"),
    ({"extra1": ["eu"]}, "03"),
    ({"extra1": ["eu", "us"]}, "013"),
    ({"types": ["a"], "extra1": ["eu", "us"]}, "03"),
    ({"types": ["b.*"], "extra1": ["eu", "us"]}, "1"),
    ({"types": ["*"], "extra2": ["x"]}, "3"),
    ({"extra1": ["eu*"]}, ""),
    ({"extra3": ["x"]}, ""),
    ({"extra4": ["y"]}, "4"),
    ({"types": ["*"]}, "012345"),
    ({}, "012345"),
    (None, "012345"),
]


def test_all_conditions_hold_and_each_is_one_of_its_values(queue, sql, insert, subtests):
    insert(
        ("a", "eu"),
        ("b.c", "us"),
        ("b.d", None),
        ("a", "eu", "x"),
        ("d", None, None, None, "y"),
        (None,),
    )
    sql("select pgq.tick_queue('q')")
    for conditions, passes in PASSES:
        with subtests.test(conditions=conditions):
            sql(SET, json.dumps(conditions) if conditions is not None else None)
            sql("select pgq.register_consumer_at('q', 'c', 1)")
            number = sql("select pgq.next_batch('q', 'c')")
            assert (sql(READ, number) if passes else []) == list(passes)
            assert (number is None) == (passes == "")


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("path", ["public", "public, pg_catalog"])
def test_values_mean_themselves_whatever_the_session_has_set(
    queue, sql, rows, insert, batch, conforming, path
):
    sql("set escape_string_warning = off")
    insert(*((value, value) for value in HOSTILE), ("other", "other"))
    types = [value for value in HOSTILE if "*" not in value]
    sql(SET, chosen(types=types, extra1=HOSTILE))
    query = sql("select pgq.batch_event_sql(%s)", batch())
    for name in ("evil", "starts_with"):
        body = "returns boolean language sql return true"
        sql(f"create function public.{name}(text, text) {body}")
    sql("create operator public.= (leftarg = text, rightarg = text, function = public.evil)")
    sql(f"set standard_conforming_strings = {conforming}")
    sql(f"set search_path = {path}")
    assert [row[4] for row in rows(query)] == HOSTILE


def test_prefixes_mean_themselves(queue, sql, rows, insert, subtests):
    for tick, value in enumerate(filter(None, HOSTILE), start=1):
        prefix = value[:999]
        insert((f"{prefix}!",), (prefix,), (f"!{prefix}",), ("other",))
        sql("select pgq.tick_queue('q')")
        wanted = chosen(types=[f"{prefix}*"])
        query = sql("select pgq.tick_event_sql('q', %s, %s, null, %s)", tick, tick + 1, wanted)
        with subtests.test(prefix=prefix):
            assert [row[5] for row in rows(query)] == ["0", "1"]


SENSELESS = [
    ("[]", "such as"),
    ('"a"', "such as"),
    ("null", "such as"),
    ('{"type": ["a"]}', "conditions are types, extra1"),
    ('{"extra5": ["a"]}', "conditions are types, extra1"),
    ('{"types": "a"}', "list of texts"),
    ('{"types": null}', "list of texts"),
    ('{"types": [1]}', "list of texts"),
    ('{"types": ["a", null]}', "list of texts"),
    ('{"types": [["a"]]}', "list of texts"),
    ('{"types": []}', "no event would pass"),
    ('{"extra1": []}', "no event would pass"),
    ('{"types": ["a*b"]}', 'not as in "a\\*b"'),
    ('{"types": ["**"]}', "may only end a type"),
    ('{"types": ["*", "a*b"]}', "may only end a type"),
    (chosen(extra1=["x" * 10_000]), "10000 characters is too long, 1000"),
    (chosen(types=[str(number) for number in range(10_000)]), "10000 values are too many"),
]


def test_filter_that_makes_no_sense_is_refused(queue, sql, subtests):
    for wanted, hint in SENSELESS:
        for statement in (SET, "select pgq.tick_event_sql('q', 1, 1, null, %s)"):
            refused = pytest.raises(psycopg.Error, match=hint)
            with subtests.test(wanted=wanted[:50]), refused as caught:
                sql(statement, wanted)
            assert caught.value.sqlstate == "PQ009"
    assert sql("select sub_filter from pgq.registration") is None


def test_filter_is_kept_in_order_with_each_value_once(queue, sql):
    assert sql(SET, chosen(types=["b", "a", "b", "B"], extra2=["y"])) == 1
    kept = {"types": ["B", "a", "b"], "extra2": ["y"]}
    assert sql("select sub_filter from pgq.registration") == kept
    assert sql(SET, chosen(extra2=["y", "y"], types=["B", "a", "b"])) == 0
    assert sql(SET, None) == 1
    assert sql(SET, "{}") == 0


def test_ten_thousand_values_pass_if_they_are_shared_out(queue, sql, insert, batch):
    values = [str(number) for number in range(1000)]
    insert(*(("t", str(number), str(number)) for number in (0, 999, 1000)))
    sql(SET, chosen(extra1=values, extra2=values, types=[f"{n}*" for n in range(999)] + ["t"]))
    assert sql(READ, batch()) == ["0", "1"]


def test_range_of_ticks_is_read_with_a_filter_of_its_own(queue, sql, rows, insert):
    insert(("a", "eu"), ("b", "us"), ("a", "us"))
    sql("select pgq.tick_queue('q')")
    sql(SET, chosen(types=["b"]))
    wanted = chosen(types=["a*"], extra1=["us"])
    query = sql("select pgq.tick_event_sql('q', 1, 2, null, %s)", wanted)
    assert [row[5] for row in rows(query)] == ["2"]
    assert len(rows(sql("select pgq.tick_event_sql('q', 1, 2)"))) == 3


def test_filter_applies_to_the_events_of_a_stage(queue, sql, stage, batch):
    stage_id = stage("w", 1, "a", "b")
    kind = sql("select ev_type from pgq.event_1 limit 1")
    sql("select pgq.commit_stage('q', 'w', 1, %s, 2)", [stage_id])
    sql(SET, chosen(types=["other"]))
    sql("select pgq.tick_queue('q')")
    assert sql("select pgq.next_batch('q', 'c')") is None
    stage_id = stage("w", 2, "c", "d")
    sql("select pgq.commit_stage('q', 'w', 2, %s, 2)", [stage_id])
    sql(SET, chosen(types=[kind]))
    assert sql(READ, batch()) == ["c", "d"]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("select pgq.set_consumer_filter('q', 'nobody', null)", "PQ002"),
        ("select pgq.set_consumer_filter('nowhere', 'c', null)", "PQ002"),
        ("select pgq.set_consumer_filter('q', 'w.1', null)", "PQ020"),
    ],
)
def test_only_a_consumer_has_a_filter(queue, sql, statement, state):
    sql("select pgq_coop.register_subconsumer('q', 'w', '1')")
    with pytest.raises(psycopg.Error) as refused:
        sql(statement)
    assert refused.value.sqlstate == state
