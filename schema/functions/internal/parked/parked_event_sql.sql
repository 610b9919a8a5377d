-- The query of a batch of take_parked: its events that are parked still, without those that failed
-- in it and the events of their keys behind them. The sessions that run it have search_paths of
-- their own, so functions and operators are qualified.
-- Parameters: i_owner: the consumer. i_batch, i_ids: the batch and its pos_ids.
-- Returns: SQL text; per key in the order of the events.
-- Writes: nothing.
create or replace function pgq.parked_event_sql(i_owner int, i_batch bigint, i_ids bigint[])
returns text language sql immutable as $$
    select format($sql$
        select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pg_catalog.unnest(%2$L::pg_catalog.int8[]) with ordinality taken (id, number)
          join pgq.parked on ev_owner operator(pg_catalog.=) %1$L::pg_catalog.int4
           and ev_id operator(pg_catalog.=) id
          left join (
                select park_key as failed_key, pg_catalog.min(park_no) as failed_no from pgq.parked
                 where ev_owner operator(pg_catalog.=) %1$L::pg_catalog.int4
                   and ev_id operator(pg_catalog.=) any (%2$L::pg_catalog.int8[])
                   and park_batch operator(pg_catalog.=) %3$L::pg_catalog.int8
                 group by 1) failed on failed_key operator(pg_catalog.=) park_key
         where (park_no operator(pg_catalog.>=) failed_no) is not true
         order by number$sql$, i_owner, i_ids, i_batch)
$$;
