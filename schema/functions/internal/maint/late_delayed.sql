-- The delayed events that are due, of transactions that a poll did not see. They may have been due
-- before the poll: the transaction committed late, or was prepared.
--
-- "+ interval '0'" keeps the planner from the indexes by time, which hold every row deleted since
-- xmin was held back.
-- Parameters: i_xmax, i_xip: from parse_poll.
-- It is STABLE, so that it is inlined into the query that calls it.
create or replace function pgq.late_delayed(i_xmax bigint, i_xip bigint[])
returns setof pgq.delayed_event language sql stable as $$
    select * from pgq.delayed_event
     where ev_txid >= i_xmax and ev_deliver_at + interval '0' <= now()
    union all
    select * from pgq.delayed_event
     where ev_txid = any (i_xip) and ev_deliver_at + interval '0' <= now()
$$;
