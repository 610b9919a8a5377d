-- The retried events that are due now and may not have been due at an earlier poll: those that
-- became due since i_from, and those due before, if transactions inserted them that the poll did
-- not see. The conditions on ev_retry_after and on ev_txid are separate queries, each for its
-- index. "+ interval '0'" keeps the planner from the wrong index, which holds every row deleted
-- since xmin was held back.
-- Parameters: i_from: the time of the poll, -infinity: all. i_xmax, i_xip: the poll did not see the
--   transactions from i_xmax on, and those in i_xip.
-- Returns: each row once.
-- It is STABLE, so that it is inlined into the query that calls it.
create or replace function pgq.due_retries(i_from timestamptz, i_xmax bigint, i_xip bigint[])
returns setof pgq.retry_queue language sql stable as $$
    select * from pgq.retry_queue where ev_retry_after >= i_from and ev_retry_after <= now()
    union all
    select * from pgq.retry_queue
     where ev_txid >= i_xmax and ev_retry_after + interval '0' < i_from
       and ev_retry_after + interval '0' <= now()
    union all
    select * from pgq.retry_queue
     where ev_txid = any (i_xip) and ev_retry_after + interval '0' < i_from
       and ev_retry_after + interval '0' <= now()
$$;
