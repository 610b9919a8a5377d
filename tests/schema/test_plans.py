"""No plan that a session asks for shows it an event that it may not read."""

from __future__ import annotations

import re

import pytest

SHOW = ("client_min_messages = log", "debug_print_plan = on", "debug_print_rewritten = on")
VALUE = re.compile(r":constvalue\s+\d+\s*\[([^\]]*)\]")
SECRET = "'secret', 'secret', 'secret', 'secret', 'secret', 'secret'"
FIRE = """
    select pgq.fire_cron(cron_name, version, next_due, next_due, next_due + '1 day'::interval)
    from pgq.get_cron_info()
"""


@pytest.mark.parametrize(
    ("role", "call"),
    [("pgq_writer", "select state from pgq.cancel_event('q', '{1}')"), ("pgq_ticker", FIRE)],
)
def test_plans_show_no_event_to_a_role_that_reads_none(queue, sql, connect, role, call):
    sql(f"select pgq.insert_event('q', {SECRET})")
    sql("select pgq.add_cron('e', 'q', 'secret', 'secret', '* * * * *')")
    sql("update pgq.cron set cron_next = date_trunc('minute', now()), cron_planned = '-infinity'")
    session = connect()
    shown = []
    session.add_notice_handler(lambda notice: shown.append(notice.message_detail or ""))
    session.execute(f"set role {role}")
    for setting in SHOW:
        session.execute(f"set {setting}")
    assert session.execute(call).fetchone() in {("cancelled",), (2,)}
    values = [bytes(int(n) % 256 for n in found.split()) for found in VALUE.findall("".join(shown))]
    assert values, "the session's own plans are shown"
    assert [value for value in values if b"secret" in value] == []


def test_every_function_with_events_for_a_role_that_reads_none_prints_no_plan(queue, rows):
    found = rows("""
        select distinct proname from pg_proc p cross join pg_settings s
         where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace) and prosecdef
           and s.name ~ '^debug_print_' and not s.name || '=off' = any (proconfig)
           and exists (
                select from unnest('{public,pgq_writer,pgq_ticker,pgq_dashboard}'::name[]) role
                 where has_function_privilege(role, p.oid, 'execute'))
    """)
    # They hold no event but the caller's. A setting costs 1 %.
    producers = {"current_event_table", "insert_event", "insert_events", "insert_event_at"}
    producers |= {"insert_event_once", "insert_events_at"}
    assert {name for (name,) in found} == producers
