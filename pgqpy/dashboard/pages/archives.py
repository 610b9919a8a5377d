"""The archives, by the positions of their consumers; the database does not know their files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg.rows import dict_row

from pgqpy.dashboard.page import Page, View, table

NONE = timedelta(0)
# The names that `pgqpy archive run` gives: archive, or archive:SCHEMA.TABLE. Everybody may read
# these tables.
POSITIONS = """
    select q.queue_name as queue, c.co_name as consumer, p.pos_last_tick as tick,
        case when p.pos_pins[1] > p.pos_last_tick then p.pos_pins[1] end as next_tick,
        substr(c.co_name, 9) as table_name,
        (select case when isfinite(t.tick_time) then t.tick_time end from pgq.tick t
          where t.tick_queue = q.queue_id and t.tick_id = p.pos_last_tick limit 1) as time,
        exists (select from pg_class k join pg_namespace n on n.oid = k.relnamespace
          where k.relname = substring(c.co_name from '[^.]*$')::name
            and c.co_name = concat('archive:', n.nspname, '.', k.relname)) as has_table
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
    where p.pos_pins is not null
        and (c.co_name = 'archive' or starts_with(c.co_name, 'archive:'))"""


def collect(view: View) -> dict[str, Any]:
    """Return the archives of one page, the one with the largest lag at the top."""
    with view.client.connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(POSITIONS).fetchall()
    states = {(each.queue, each.name): each for each in view.snapshot.consumers}
    own = {each[:2]: each for each in view.snapshot.workers if each.worker is None}
    for row in rows:
        names = (row["queue"], row["consumer"])
        row["state"], row["worker"] = states.get(names), own.get(names)

    def lag(row: dict[str, Any]) -> timedelta:
        return -((row["state"] and row["state"].lag) or NONE)

    def name(row: dict[str, Any]) -> str:
        return f"{row['queue']} {row['consumer']}"

    return {"table": table(rows, view.params, {"lag": lag}, name)}


ARCHIVES = Page("/archives", "archives.html", collect, live=True)
