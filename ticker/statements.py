"""The SQL of the tick loop: one statement a look, prepared once a session."""

from __future__ import annotations

# One round trip says both whether anything happened and what. Nothing was written anywhere as long
# as the snapshot is the same text as last time; then the sequences are not even read.
# Neither function takes a transaction id, so looking does not change what the next look sees.
LOOK = """
    select look.snapshot, activity.queue_name, activity.event_seq
    from (select pg_current_snapshot()::text as snapshot) as look
    left join lateral (
        select * from pgq.ticker_activity() where look.snapshot <> %s
    ) as activity on true
"""

# Who has taken event ids and is still open. nextval() locks the sequence, before it counts, until
# the end of the transaction, so this finds every producer from its first id on, even before it
# has a transaction id. (The snapshot's list of open transactions would miss those, as well as
# the newest ones, and would name every transaction of the cluster besides.)
WRITERS = """
    select q.queue_name, l.virtualtransaction
    from pgq.queue as q
    join pg_locks as l on l.relation = to_regclass(q.queue_event_seq)
    where q.queue_name = any(%s) and l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
        and l.database = (select oid from pg_database where datname = current_database())
        and l.pid is distinct from pg_backend_pid()
"""

# Many queues in one transaction: one commit and one message to the consumers for all of them.
TICK = """
    select wanted.queue_name, made.tick_id
    from unnest(%s::text[]) as wanted (queue_name), pgq.tick_queue(wanted.queue_name) as made
"""

LEAD = "select pg_try_advisory_lock(7366513, 0)"
RECOVERY = "select pg_is_in_recovery()"
