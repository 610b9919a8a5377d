-- Extends the lease of a claim. With a holder, renew does it for all its claims.
-- Parameters: i_lease: a second to a day, from now on.
-- Returns: how many events the claim still has; 0: the lease has ended, or the claim has a holder.
-- Raises: PQ002; PQ009 a bad lease; PQ013 not READ COMMITTED; PQ020 not shared; PQ024 detached.
-- Writes: update pgq.inflight.
create or replace function pgq.extend(
    i_queue_name text, i_consumer_name text, i_token bigint, i_lease interval)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := (pgq.find_shared(i_queue_name, i_consumer_name)).sub_id;
    v_count int;
begin
    perform pgq.check_claim(1, i_lease);
    with extended as (
        update pgq.inflight set run_due = clock_timestamp() + i_lease
         where run_sub = v_sub and run_token = i_token and i_token > 0 and run_holder is null
        returning run_ids)
    select coalesce(sum(cardinality(run_ids)), 0)::int into v_count from extended;
    return v_count;
end $$;
comment on function pgq.extend is 'Extends the lease of a claim.';
