"""Dead events: kept, revived, deleted."""

from __future__ import annotations

from tests.schema.statements import state
from tests.schema.test_consume import EVENTS, insert


def test_dead_event_is_kept_with_its_reason_and_revived(queue, sql, rows, batch):
    insert(sql, 2)
    opened = batch()
    txids = dict(rows("select ev_id, ev_txid from pgq.get_batch_events(%s)", opened))
    dead = "select pgq.event_dead(%s, '{2}', array[%s]::bigint[], '{too bad}')"
    assert sql(dead, opened, txids[2]) == 1
    assert sql(dead, opened, txids[2]) == 0
    sql("select pgq.finish_batch(%s)", opened)
    found = rows("select ev_id, dead_reason, ev_data from pgq.get_dead_events('q', 'c')")
    assert found == [(2, "too bad", "d")]
    assert sql("select pgq.revive_dead_events('q', 'c', '{1}')") is None
    assert sql("select pgq.revive_dead_events('q', 'c')") == 2
    sql("select pgq.maint_retry_events()")
    assert rows(EVENTS, batch()) == [(2,)]


def test_dead_events_have_their_exceptions_and_the_number_of_tries(queue, sql, rows, batch):
    insert(sql, 3)
    opened = batch()
    events = f"from (select array_agg(ev_txid) txids from pgq.get_batch_events({opened})) e"
    dead = f"select pgq.event_dead({opened}, '{{1,2,3}}', txids, '{{a,NULL,c}}'"
    for wrong in ("'{x}'", "null, '{x}'", "null, null, '{1}'"):
        assert state(sql, f"{dead}, {wrong}) {events}") == "PQ009"
    sql(f"{dead}, '{{ValueError,NULL,NULL}}', '{{line 1,NULL,NULL}}', '{{NULL,5,NULL}}') {events}")
    found = rows(
        "select ev_id, dead_error, dead_reason, dead_traceback, dead_tries"
        "  from pgq.get_dead_events('q', 'c') order by ev_id"
    )
    assert found == [
        (1, "ValueError", "a", "line 1", 1),
        (2, None, "", None, 5),
        (3, None, "c", None, 1),
    ]


def test_dead_events_are_deleted_for_good(queue, sql, rows, batch):
    insert(sql)
    opened = batch()
    txid = sql("select ev_txid from pgq.get_batch_events(%s)", opened)
    sql("select pgq.event_dead(%s, '{1}', array[%s]::bigint[], '{x}')", opened, txid)
    assert sql("select pgq.delete_dead_events('q', 'c')") == 1
    assert rows("select * from pgq.get_dead_events('q', 'c')") == []
    assert state(sql, "select * from pgq.get_dead_events('q', 'stranger')") == "PQ002"
    assert state(sql, "select pgq.revive_dead_events('q', 'stranger')") == "PQ002"
