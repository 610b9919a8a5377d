-- Makes the heads of parked keys due now. Heads that another session writes just now are left out.
-- Parameters: i_keys: the heads of these keys; null: of all.
-- Returns: how many heads are due now that were not.
-- Raises: PQ002 not a subscriber.
-- Writes: key share lock pgq.registration; update pgq.parked.
create or replace function pgq.retry_parked(
    i_queue_name text, i_consumer_name text, i_keys text[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_count int;
begin
    perform from pgq.registration where sub_id = v_sub for key share;
    update pgq.parked set park_after = clock_timestamp()
     where ctid = any (array(
            select ctid from pgq.parked h
             where ev_owner = v_sub and park_after > clock_timestamp()
               and (i_keys is null or park_key = any (i_keys)) and not exists (
                    select from pgq.parked
                     where ev_owner = v_sub and park_key = h.park_key and park_no < h.park_no)
               for update skip locked));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.retry_parked is 'Makes the heads of parked keys due now.';
