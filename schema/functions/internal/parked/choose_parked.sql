-- The events of the next batch of parked ones: see take_parked.
-- Parameters: i_owner: the consumer. i_limit: at most so many. i_lane: only events of this lane,
--   see lane_sql; null: all.
-- Returns: their ids; an empty array: no head is due.
create or replace function pgq.choose_parked(i_owner int, i_limit int, i_lane jsonb)
returns bigint[] language plpgsql as $$
declare
    h record;
    v_ids bigint[] := '{}';
    v_left int := i_limit;
begin
    for h in execute format('select * from pgq.parked where ev_owner = $1 '
        'and park_after <= clock_timestamp() and %s order by park_after',
        coalesce(pgq.lane_sql(i_lane), 'true')) using i_owner
    loop
        exit when v_left = 0;
        continue when exists (  -- not the head: a failed event behind one that is not finished
            select from pgq.parked
             where ev_owner = i_owner and park_key = h.park_key and park_no < h.park_no);
        v_ids := v_ids || array(
            select ev_id from pgq.parked
             where ev_owner = i_owner and park_key = h.park_key and park_no >= h.park_no
             order by park_no limit case when h.park_error is null then v_left else 1 end);
        v_left := i_limit - cardinality(v_ids);
    end loop;
    return v_ids;
end $$;
