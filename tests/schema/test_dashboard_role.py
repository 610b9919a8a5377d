"""The role pgq_dashboard sees counts and history, and neither a payload nor a message."""

from __future__ import annotations

from tests.schema.test_rules import expect_rights

RIGHTS = [
    ("pgq_dashboard", "select pgq.get_history('q')", True),
    ("pgq_dashboard", "select pgq.get_dead_event_bounds('q', 'c')", True),
    ("pgq_dashboard", "select pgq.get_dead_event_counts('q', 'c')", True),
    ("pgq_dashboard", "select pgq.get_dead_events('q', 'c')", False),
    ("pgq_dashboard", "select pgq.delete_dead_events('q', 'c')", False),
    ("pgq_dashboard", "select pgq.get_rotation_info('q')", True),
    ("pgq_dashboard", "select pgq.get_parked('q', 'c')", False),
    ("pgq_dashboard", "select pgq.get_delayed_events('q')", False),
    ("pgq_dashboard", "select ev_data from pgq.event_1", False),
    ("pgq_dashboard", "select * from pgq.dead_event", False),
    ("pgq_dashboard", "select * from pgq.history", False),
    ("pgq_dashboard", "select pgq.insert_event('q', 't', 'd')", False),
    ("pgq_dashboard", "select pgq.next_batch('q', 'c')", False),
    ("pgq_dashboard", "select pgq.tick_queue('q')", False),
    ("pgq_dashboard", "select pgq.maint_history()", False),
    ("pgq_dashboard", "select pgq.begin_change('drop queue')", True),
    ("pgq_dashboard", "select pgq.end_change(1, 'done')", True),
    ("pgq_dashboard", "select * from pgq.get_changes()", True),
    ("pgq_dashboard", "select * from pgq.change", False),
    ("pgq_dashboard", "insert into pgq.change (change_action) values ('x')", False),
    ("pgq_admin", "select * from pgq.get_changes()", True),
    ("pgq_admin", "update pgq.change set change_outcome = 'x'", False),
    ("pgq_admin", "delete from pgq.change", False),
    ("pgq_admin", "truncate pgq.change", False),
    ("pgq_admin", "select nextval('pgq.change_change_id_seq')", False),
    ("pgq_reader", "select * from pgq.get_changes()", False),
    ("pgq_writer", "select pgq.begin_change('x')", False),
    ("pgq_ticker", "select pgq.maint_changes()", True),
    ("pgq_writer", "select pgq.get_history('q')", False),
    ("pgq_reader", "select pgq.get_history('q')", True),
    ("pgq_admin", "delete from pgq.history", False),
    ("pgq_ticker", "select pgq.maint_history()", True),
]


def test_role_can_do_its_part_and_no_more(queue, connection, sql, subtests):
    expect_rights(connection, sql, subtests, RIGHTS)


def test_dashboard_may_call_what_shows_no_event_and_nothing_else(rows):
    found = rows(
        "select distinct proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and has_function_privilege('pgq_dashboard', oid, 'execute')"
        " and not has_function_privilege('public', oid, 'execute') order by 1"
    )
    assert [name for (name,) in found] == [
        "begin_change",
        "end_change",
        "get_changes",
        "get_dead_event_bounds",
        "get_dead_event_counts",
        "get_history",
    ]
