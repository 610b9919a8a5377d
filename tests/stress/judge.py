"""What the log says: nothing lost, nothing done twice, order within keys, only killers dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

LOST = """
    select count(*) from sent where ev_id not in (select ev_id from handled where consumer = %(c)s)
       and ev_id not in (select ev_id from dead where consumer = %(c)s)"""
GHOSTS = """
    select count(*) from handled where consumer = %(c)s and ev_id not in (select ev_id from sent)"""
TWICE = """
    select count(*) from (select from handled where consumer = %(c)s
                           group by ev_id having count(*) > 1) h"""
BOTH = """
    select count(*) from handled
     where consumer = %(c)s and ev_id in (select ev_id from dead where consumer = %(c)s)"""
INNOCENT = """
    select count(*) from dead join sent using (ev_id)
     where consumer = %(c)s and kind not in ('killer', 'bad')"""
SPARED = """
    select count(*) from sent where kind in ('killer', 'bad')
       and ev_id in (select ev_id from handled where consumer = %(c)s)"""
LEFT = """
    select count(*) from pgq.inflight join pgq.registration on run_sub = sub_id
      join pgq.consumer on co_id = sub_consumer where co_name = %(c)s"""
BACKWARD = """
    select count(*) from (select n < lag(n) over (partition by key order by id) as is_back
                            from handled where consumer = %(c)s) h where is_back"""
CHECKS = {
    "lost": LOST,
    "not sent": GHOSTS,
    "done twice": TWICE,
    "done and dead": BOTH,
    "innocent and dead": INNOCENT,
    "killers or bad ones done": SPARED,
    "left in flight": LEFT,
}


def judge(connection: psycopg.Connection[Any], consumers: list[str], killers: int) -> list[str]:
    """Print what each consumer did; return its faults."""
    # NOT IN needs a hash table that holds a million events.
    connection.execute("set work_mem = '1GB'")
    connection.execute(
        """create temporary view dead as
           select co_name as consumer, ev_id, dead_reason from pgq.dead_event
             join pgq.registration on sub_id = ev_owner join pgq.consumer on co_id = sub_consumer"""
    )
    kinds = dict(connection.execute("select kind, count(*) from sent group by kind").fetchall())
    print(f"stress: sent {kinds}, at most {killers} killers")
    faults = []
    for consumer in consumers:
        checks = CHECKS | ({"out of order": BACKWARD} if consumer == "ordered" else {})
        found = {}
        for what, query in checks.items():
            row = connection.execute(query.encode(), {"c": consumer}).fetchone()
            found[what] = row[0] if row else None
        print(f"stress: {consumer}: {found}")
        faults += [f"{consumer}: {count} {what}" for what, count in found.items() if count]
    return faults
