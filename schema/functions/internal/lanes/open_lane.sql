-- Opens the next batch of a lane for a run, or takes over the one of a dead holder: see take_lane.
-- What the caller has seen without a lock decides whether the lane is locked; then it is read
-- again.
-- Parameters: v: the lane as it was seen. i_filter: what the consumer took
--   then; null: all. The others as in take_lane.
-- Returns: its position with the open batch; all null: there is no batch, or another run is faster.
-- Raises: PQ012 keys are in other lanes here; PQ015 as find_next_tick; as skip_ranges.
-- Writes: row lock pgq.registration; insert pgq.position; as skip_ranges.
create or replace function pgq.open_lane(
    v pgq.current_position, i_holder text, i_lease interval, i_dead_interval interval,
    i_min_lag interval, i_min_count int, i_min_interval interval, i_wanted int, i_filter jsonb)
returns pgq.current_position language plpgsql set enable_seqscan = off
set enable_bitmapscan = off set enable_sort = off as $$
declare
    s pgq.current_position := v;
    c_until constant timestamptz := clock_timestamp() + i_lease;
    v_next bigint;
begin
    for i in 1..2 loop
        if s.pos_batch is not null then
            if not pgq.holder_is_dead(hashtext(s.pos_holder), s.pos_holder, s.pos_until,
                    s.pos_active, i_dead_interval, 7366516) then
                return null;
            end if;
        else
            v_next := pgq.find_lane_tick(
                s, i_min_lag, i_min_count, i_min_interval, i_wanted);
            if v_next is null then
                return null;
            end if;
        end if;
        if i = 1 then
            if (s.sub_filter -> 'lane' ->> 3)::bigint <> pgq.key_hash() then
                perform pgq.raise_other_hash(s);
            end if;
            perform from pgq.registration where sub_id = v.sub_id for no key update skip locked;
            if not found then
                return null;
            end if;
            select * into s from pgq.current_position where sub_id = v.sub_id;
            if not found or s.sub_filter - 'lane' <> coalesce(i_filter, '{}')
                    or s.sub_stop_tick is null and exists (
                    select from pgq.registration
                     where sub_parent = v.sub_parent and sub_stop_tick is not null) then
                return null;  -- the lanes or the filter were changed since
            end if;
        end if;
    end loop;
    if s.pos_batch is not null then
        perform pgq.take_range(s, s, nextval('pgq.batch_id_seq'), i_holder, c_until);
    else
        select last_tick, next_tick into s.pos_last_tick, v_next
          from pgq.skip_ranges(s, v_next, i_min_lag, i_min_count, i_min_interval);
        perform pgq.move_position(s.sub_id, s.pos_no, s.pos_last_tick, v_next,
            case when v_next is not null then nextval('pgq.batch_id_seq') end,
            x_holder => case when v_next is null then s.pos_holder else i_holder end,
            x_part => s.pos_part, x_until => case when v_next is not null then c_until end);
        if v_next is null then
            return null;
        end if;
    end if;
    select * into s from pgq.current_position where sub_id = v.sub_id;
    return s;
end $$;
