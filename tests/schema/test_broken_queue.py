"""Absurd values are refused; where they are stored all the same, they break one queue only."""

from __future__ import annotations

import psycopg
import pytest

from pgqpy import Client, calls

MOST = 2**62
TICK = "select pgq.ticker('q', %s, %s, %s)"
NOW = "2026-01-01"


@pytest.fixture
def external(queue, sql):
    """A queue that is ticked from elsewhere."""
    sql("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    return queue


OUT_OF_RANGE = [
    (50, "infinity", 500),
    (50, "-infinity", 500),
    (50, "1969-12-31", 500),
    (50, "294276-01-01", 500),
    (50, "4713-01-01 BC", 500),
    (0, NOW, 500),
    (MOST + 1, NOW, 500),
    (2**63 - 1, NOW, 500),
    (50, NOW, -1),
    (50, NOW, -(2**63)),
    (50, NOW, MOST + 1),
    (50, NOW, 2**63 - 1),
]


def test_external_tick_out_of_range_is_refused_and_changes_nothing(external, sql, subtests):
    for tick, time, seq in OUT_OF_RANGE:
        with subtests.test(tick=tick, time=time, seq=seq):
            with pytest.raises(psycopg.Error) as caught:
                sql(TICK, tick, time, seq)
            assert caught.value.sqlstate == "PQ009"
            assert caught.value.diag.message_hint
    assert sql("select count(*) from pgq.tick") == 1
    assert sql("select pgq.seq_getval('pgq.event_1_id_seq')") == 0


def test_sequence_of_a_queue_is_not_moved_out_of_range(queue, sql):
    with pytest.raises(psycopg.Error) as caught:
        sql("select pgq.seq_setval('pgq.event_1_id_seq', %s)", MOST + 1)
    assert caught.value.sqlstate == "PQ009"
    assert sql("select pgq.seq_setval('pgq.event_1_id_seq', %s)", MOST) == MOST
    assert sql("select pgq.insert_event('q', 't', 'd')") == MOST + 1


def test_largest_external_tick_leaves_every_call_working(external, sql, connection):
    assert sql(TICK, MOST, NOW, MOST) == MOST
    sql("select pgq.set_queue_config('q', 'external_ticker', 'false')")
    assert sql("select pgq.insert_event('q', 't', 'd')") == MOST + 1
    assert sql("select pgq.force_tick('q')") == MOST
    assert sql("select pgq.ticker('q')") == MOST + 1
    client = Client(connection)
    assert client.get_queue_info("q")[0].last_tick_id == MOST + 1
    assert sql("select pending_events from pgq.get_consumer_info('q', 'c')") > MOST
    batch = sql("select pgq.next_batch('q', 'c')")
    assert sql("select lag is not null from pgq.get_batch_info(%s)", batch)
    assert sql("select max(events) from pgq.get_tick_info('q')") == MOST


BREAKAGES = {
    "no sequence": "drop sequence pgq.event_1_id_seq cascade",
    "no ticks": "delete from pgq.tick where tick_queue = 1",
}


def test_broken_queue_breaks_no_list_of_all(queue, sql, connection, subtests):
    sql("select pgq.create_queue('other')")
    sql("select pgq.register_consumer('other', 'c')")
    sql("select pgq.insert_event('other', 't', 'd')")
    for name, breakage in BREAKAGES.items():
        with subtests.test(name), connection.transaction(force_rollback=True):
            connection.execute(breakage.encode())
            _expect_lists(Client(connection))


def _expect_lists(client):
    broken, other = sorted(client.get_queue_info(), key=lambda each: each.queue_name != "q")
    assert broken.queue_name == "q"
    assert broken.ev_new is None
    assert (other.queue_name, other.ev_new, other.last_tick_id) == ("other", 1, 1)
    assert other.ticker_lag is not None
    found = {each.queue_name: each for each in client.get_consumer_info()}
    assert found["other"].pending_events == 0
    assert found["other"].lag is not None
    assert [
        each.estimated_events for each in client.call(calls.admin.get_queue_metrics("other"))
    ] == [1]
    assert {each.queue_name for each in client.call(calls.admin.get_queue_metrics())} == {
        "q",
        "other",
    }
    assert client.connection.execute("select max(events) from pgq.get_tick_info('q')").fetchone()


NULL_DELAYS = (
    "select pgq.event_retry(%(batch)s, 1, null::int)",
    "select pgq.event_retry(%(batch)s, 1, null::timestamptz)",
    "select pgq.event_retry(%(batch)s, '{1}', array[%(txid)s]::bigint[], '{null}')",
    "select pgq.batch_retry(%(batch)s, null)",
    "select pgq.event_retry_raw('q', 'c', null, 5, null, null, 't', 'secret', '', '', '', '')",
)


def test_null_delay_is_refused_without_a_payload(queue, sql, batch, connection, subtests):
    sql("select pgq.insert_event('q', 't', 'secret')")
    opened = batch()
    txid = sql("select ev_txid from pgq.get_batch_events(%s)", opened)
    for call in NULL_DELAYS:
        with subtests.test(call=call):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(call, {"batch": opened, "txid": txid})
            assert caught.value.sqlstate == "PQ009"
            assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "call", ["select pgq.event_retry(%s, 5, 0)", "select pgq.batch_retry(%s, 0)"]
)
def test_count_of_retries_stops_at_the_largest_number(queue, sql, batch, call):
    sql("select pgq.seq_setval('pgq.event_1_id_seq', 5)")
    sql(
        "select pgq.event_retry_raw('q', 'c', now(), 5, null, 2147483647, 't', 'd', '', '', '', '')"
    )
    sql("select pgq.maint_retry_events()")
    assert sql(call, batch()) == 1
    assert sql("select ev_retry from pgq.retry_queue") == 2147483647


def test_event_with_the_largest_count_of_retries_is_received_and_dies(queue, sql):
    sql("select pgq.insert_event_raw('q', null, null, null, 2147483647, 't', 'd', '', '', '', '')")
    sql("select pgq.tick_queue('q')")
    sql("select pgq.set_consumer_mode('q', 'c', 'shared')")
    token = sql("select token from pgq.receive('q', 'c')")
    assert sql("select pgq.dead('q', 'c', %s, null, 'why')", token) == 1
    assert sql("select ev_retry from pgq.get_dead_events('q', 'c')") == 2147483647
