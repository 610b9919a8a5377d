"""Ranges of ticks: their list, their events, and the subscriptions that pin them."""

from __future__ import annotations

import psycopg
import pytest

EVENTS = "select ev_data from pgq.get_tick_events('q', %s, %s)"
PIN = "select pgq.pin_range('q', 'c', %s, %s)"
ADVANCE = "select pgq.advance_subscription('q', 'c', %s, %s)"
NEWEST = (
    "select pos_last_tick, pos_batch, pos_pins from pgq.position"
    " join pgq.registration on sub_id = pos_sub join pgq.consumer on co_id = sub_consumer"
    " where co_name = 'c' order by pos_no desc limit 1"
)


@pytest.fixture
def ticks(queue, sql):
    """Ticks 1 to 6 of the queue; after each but the last one event: "1" to "5"."""
    for number in range(1, 6):
        sql("select pgq.insert_event('q', 't', %s)", str(number))
        sql("select pgq.tick_queue('q')")
    return range(1, 7)


def refusal(sql, statement, *params):
    with pytest.raises(psycopg.Error) as caught:
        sql(statement, *params)
    diag = caught.value.diag
    return caught.value.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint


def state(sql, statement, *params):
    return refusal(sql, statement, *params)[0]


def test_tick_info_lists_the_ticks_with_times_and_counts(ticks, sql, rows):
    sql("select pgq.insert_events('q', '{t,t}', '{x,y}')")
    sql("select pgq.tick_queue('q')")
    found = rows("select * from pgq.get_tick_info('q')")
    assert [(tick, seq, count) for tick, _, _, seq, count in found] == [
        (1, 0, None),
        *((number + 1, number, 1) for number in range(1, 6)),
        (7, 7, 2),
    ]
    there = rows("select tick_id, tick_time, tick_snapshot::text from pgq.tick order by 1")
    assert [(tick, time, snapshot) for tick, time, snapshot, *_ in found] == there


LIMITS = [
    ((None, None), [1, 2, 3, 4, 5, 6]),
    ((3, None), [3, 4, 5, 6]),
    ((None, 2), [1, 2]),
    ((2, 4), [2, 3, 4]),
    ((4, 4), [4]),
    ((5, 2), []),
    ((7, None), []),
    ((-(2**63), 2**63 - 1), [1, 2, 3, 4, 5, 6]),
]


def test_tick_info_keeps_to_its_limits(ticks, rows, subtests):
    for limits, expected in LIMITS:
        with subtests.test(limits=limits):
            found = rows("select tick_id, events from pgq.get_tick_info('q', %s, %s)", *limits)
            assert [tick for tick, _ in found] == expected
            assert [count for _, count in found] == [None, 1, 1, 1, 1, 1][: len(expected)]


def test_tick_info_leaves_out_what_rotation_has_passed(ticks, sql, rows):
    sql("update pgq.queue set queue_low_tick = 4")
    assert rows("select tick_id from pgq.get_tick_info('q')") == [(4,), (5,), (6,)]
    assert rows("select tick_id from pgq.get_tick_info('q', 1, 4)") == [(4,)]


def test_tick_info_of_an_unknown_queue_is_an_error(queue, sql):
    assert state(sql, "select * from pgq.get_tick_info('nope')") == "PQ001"
    assert state(sql, "select * from pgq.get_tick_info(null)") == "PQ001"


RANGES = {
    (1, 6): "12345",
    (1, 2): "1",
    (2, 4): "23",
    (5, 6): "5",
    (3, 3): "",
    (1, 1): "",
    (6, 6): "",
}


def test_range_holds_the_events_after_its_first_tick_up_to_its_last(ticks, rows):
    found = {ends: "".join(data for (data,) in rows(EVENTS, *ends)) for ends in RANGES}
    assert found == RANGES


def test_range_has_the_columns_of_a_batch(ticks, sql, rows):
    batch = sql("select pgq.next_batch('q', 'c')")
    of_batch = rows("select * from pgq.get_batch_events(%s)", batch)
    assert rows("select * from pgq.get_tick_events('q', 1, 2)") == of_batch
    statement = sql("select pgq.tick_event_sql('q', 1, 2)")
    assert rows(statement) == of_batch
    assert "order by" not in statement


def test_range_is_ordered_by_id(queue, sql, rows):
    sql("select pgq.seq_setval('pgq.event_1_id_seq', 3)")
    for number in (3, 1, 2):
        sql(
            "select pgq.insert_event_raw('q', %s, now(), null, null, 't', 'd', '', '', '', '')",
            number,
        )
    sql("select pgq.tick_queue('q')")
    assert rows("select ev_id from pgq.get_tick_events('q', 1, 2)") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("function", ["tick_event_sql", "get_tick_events"])
def test_error_of_an_unreadable_range_has_the_reason(ticks, sql, function):
    call = f"select pgq.{function}(%s, %s::bigint, %s::bigint)"
    left = "queue q, tick_id={}, first_tick=1, last_tick=6"
    assert state(sql, call, "nope", 1, 2) == "PQ001"
    assert state(sql, call, None, 1, 2) == "PQ001"
    for backwards in ((2, 1), (None, 1), (1, None), (7, 1)):
        assert state(sql, call, "q", *backwards) == "PQ009"
    code, text, detail, hint = refusal(sql, call, "q", 1, 7)
    assert (code, text, detail) == ("PQ005", "tick 7 is in the future", left.format(7))
    assert hint == "the last tick is 6"
    assert refusal(sql, call, "q", 7, 8)[1] == "tick 7 is in the future"
    sql("delete from pgq.tick where tick_id = 3")
    code, text, detail, hint = refusal(sql, call, "q", 3, 4)
    assert (code, text, detail) == ("PQ005", "tick not found: 3", left.format(3))
    assert "keeps ticks 1 to 6" in hint
    assert refusal(sql, call, "q", 2, 3)[1] == "tick not found: 3"
    assert refusal(sql, call, "q", 0, 2)[1] == "tick not found: 0"


@pytest.mark.parametrize("function", ["tick_event_sql", "get_tick_events"])
def test_error_of_an_expired_range_has_the_ticks_that_are_left(ticks, sql, subtests, function):
    sql("update pgq.queue set queue_low_tick = 4")
    call = f"select pgq.{function}('q', %s::bigint, %s::bigint)"
    for first, last in ((3, 6), (1, 2), (3, 3), (-5, 6), (2, 99)):
        with subtests.test(first=first, last=last):
            code, text, detail, hint = refusal(sql, call, first, last)
            assert (code, text) == ("PQ016", f"events after tick {first} were rotated away")
            assert detail == f"queue q, tick_id={first}, first_tick=4, last_tick=6"
            assert hint == "ticks 4 to 6 are left"


def test_first_tick_that_is_left_can_be_read_from(ticks, sql, rows):
    sql("update pgq.queue set queue_low_tick = 4")
    assert rows(EVENTS, 4, 6) == [("4",), ("5",)]


def test_pins_are_the_ticks_beyond_the_position(ticks, sql, rows):
    assert sql(PIN, 1, 3) == 1
    assert rows(NEWEST) == [(1, None, [3])]
    assert sql(PIN, 1, 3) == 0
    assert sql("select count(*) from pgq.position") == 2
    assert sql(PIN, 3, 5) == 1
    assert rows(NEWEST) == [(1, None, [3, 5])]
    assert sql(PIN, 4, 6) == 1, "those before go"
    assert rows(NEWEST) == [(1, None, [4, 6])]


def test_pins_refuse_what_is_no_range_ahead(ticks, sql, rows):
    assert state(sql, "select pgq.pin_range('q', 'nobody', 1, 2)") == "PQ002"
    assert state(sql, "select pgq.pin_range('nope', 'c', 1, 2)") == "PQ002"
    for wrong in ((2, 2), (3, 2), (None, 2), (1, None)):
        assert state(sql, PIN, *wrong) == "PQ009"
    assert state(sql, PIN, 1, 7) == "PQ005"
    sql("delete from pgq.tick where tick_id = 3")
    assert state(sql, PIN, 1, 3) == "PQ005"
    assert state(sql, PIN, 3, 4) == "PQ005"
    assert sql(ADVANCE, 1, 4) == 1
    code, text, detail, hint = refusal(sql, PIN, 2, 5)
    assert (code, text) == ("PQ017", "the subscription q/c is at tick 4, not at 2")
    assert (detail, hint.partition(":")[0]) == ("tick_id=4", "somebody else uses this consumer")
    assert rows(NEWEST) == [(4, None, [])]


def test_advance_moves_once_and_keeps_the_pins_ahead(ticks, sql, rows):
    sql(PIN, 2, 4)
    assert sql(ADVANCE, 1, 2) == 1
    assert rows(NEWEST) == [(2, None, [4])]
    assert sql(ADVANCE, 1, 2) == 0
    assert sql(ADVANCE, 2, 2) == 0
    assert rows(NEWEST) == [(2, None, [4])]
    assert sql(ADVANCE, 2, 4) == 1
    assert rows(NEWEST) == [(4, None, [])]
    assert sql("select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)") == "4"


def test_advance_refuses_a_subscription_that_is_elsewhere(ticks, sql, rows):
    assert state(sql, "select pgq.advance_subscription('q', 'nobody', 1, 2)") == "PQ002"
    assert state(sql, ADVANCE, 1, 7) == "PQ005"
    for wrong in ((2, 1), (None, 2), (1, None)):
        assert state(sql, ADVANCE, *wrong) == "PQ009"
    assert refusal(sql, ADVANCE, 2, 3)[::2] == ("PQ017", "tick_id=1"), "before it"
    assert sql(ADVANCE, 1, 3) == 1
    assert refusal(sql, ADVANCE, 1, 4)[::2] == ("PQ017", "tick_id=3"), "behind it"
    assert refusal(sql, ADVANCE, 1, 2)[::2] == ("PQ017", "tick_id=3"), "never backwards"
    assert rows(NEWEST) == [(3, None, [])]


def test_repeated_advance_works_without_its_first_tick(ticks, sql):
    assert sql(ADVANCE, 1, 5) == 1
    sql("update pgq.queue set queue_low_tick = 4")
    sql("delete from pgq.tick where tick_id < 4")
    assert sql(ADVANCE, 1, 5) == 0


@pytest.mark.parametrize("call", [PIN, ADVANCE])
def test_open_batch_counts_as_use_by_another_session(ticks, sql, rows, call):
    batch = sql("select pgq.next_batch('q', 'c')")
    code, text, detail, _ = refusal(sql, call, 1, 2)
    assert (code, text) == ("PQ017", "a batch of the subscription q/c is open")
    assert detail == "tick_id=1"
    assert sql("select pgq.finish_batch(%s)", batch) == 1


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.next_batch('q', 'c')",
        "select pgq.register_consumer_at('q', 'c', 2)",
        "select pgq.finish_batch(pgq.next_batch('q', 'c'))",
    ],
)
def test_other_calls_that_move_the_position_drop_the_pins(ticks, sql, rows, call):
    sql(PIN, 2, 4)
    sql(call)
    assert not rows(NEWEST)[0][2]
