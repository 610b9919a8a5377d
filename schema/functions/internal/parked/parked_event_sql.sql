-- The query of a batch of take_parked: its events that are parked still, without those that failed
-- in it and the events of their keys behind them. The sessions that run it have search_paths of
-- their own, so functions and operators are qualified.
-- The events are looked up one by one, which OFFSET ensures: a plan without statistics would read
-- all parked events of the consumer.
-- Parameters: i_owner: the consumer. i_batch, i_ids: the batch and its pos_ids.
-- Returns: SQL text; per key in the order of the events.
create or replace function pgq.parked_event_sql(i_owner int, i_batch bigint, i_ids bigint[])
returns text language sql immutable as $$
    select format($sql$
        with taken as materialized (
            select e.*, number
              from pg_catalog.unnest(%2$L::pg_catalog.int8[]) with ordinality t (id, number)
             cross join lateral (
                    select * from pgq.parked
                     where ev_owner operator(pg_catalog.=) %1$L::pg_catalog.int4
                       and ev_id operator(pg_catalog.=) id offset 0) e
        ), failed as (
            select park_key as failed_key, pg_catalog.min(park_no) as failed_no from taken
             where park_batch operator(pg_catalog.=) %3$L::pg_catalog.int8 group by 1
        )
        select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from taken left join failed on failed_key operator(pg_catalog.=) park_key
         where (park_no operator(pg_catalog.>=) failed_no) is not true
         order by number$sql$, i_owner, i_ids, i_batch)
$$;
