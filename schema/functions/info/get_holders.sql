-- Who holds claims of shared consumers. Claims without a holder, each with a lease of its own, are
-- one row without a name.
-- Parameters: null: all.
-- Returns: since: when it called hold. lease_until: of claims without a holder, the last end.
--   events: how many it has claimed. oldest_claim: since the oldest of these claims.
create or replace function pgq.get_holders(
    i_queue_name text default null, i_consumer_name text default null,
    out queue_name text, out consumer_name text, out holder int, out name text,
    out since timestamptz, out lease_until timestamptz, out events bigint,
    out oldest_claim interval)
returns setof record language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    with claim as materialized (
        select run_sub, run_holder, max(run_due) as until, sum(cardinality(run_ids)) as events,
               min(run_claimed) as oldest
          from pgq.registration join pgq.inflight on run_sub = sub_id and run_token > 0
         group by 1, 2)
    select q.queue_name, c.co_name, h.holder_id, h.holder_name, h.holder_since,
           coalesce(h.holder_until, claim.until), coalesce(claim.events, 0),
           clock_timestamp() - claim.oldest
      from pgq.queue q
      join pgq.registration s on s.sub_queue = q.queue_id
      join pgq.consumer c on c.co_id = s.sub_consumer
     cross join lateral (
            select holder_id, holder_name, holder_since, holder_until
              from pgq.holder where holder_sub = s.sub_id
            union all
            select null, null, null, null) h
      left join claim on run_sub = s.sub_id and run_holder is not distinct from holder_id
     where (h.holder_id is not null or claim.events > 0)
       and (i_queue_name is null or q.queue_name = i_queue_name)
       and (i_consumer_name is null or c.co_name = i_consumer_name)
     order by 1, 2, h.holder_since, h.holder_id
$$;
comment on function pgq.get_holders is 'Who holds claims of shared consumers.';
