-- Opens the next batch of a lane for a run, or takes over the one of a dead holder: see take_lane.
-- The caller has seen the lane without a lock. It is locked only if there is something to do, and
-- then another run must not have moved it.
--
-- Ticks without an event for the lane are skipped. While the first of them is young, its position
-- stays: of eight lanes seven have nothing of a tick with one event, and would write all the same.
-- It does not stay until the last one is old: where ticks come again and again, it would seem to be
-- behind, and each poll would read all of them.
-- Parameters: v: the lane as it was seen. i_filter: what the consumer took then; null: all. The
--   others as in take_lane.
-- Returns: its position with the open batch; all null: there is no batch, or another run is faster.
-- Raises: PQ009 as lease_end; PQ015 as find_next_tick; as skip_ranges.
-- Writes: row lock pgq.registration; insert pgq.position; as skip_ranges.
create or replace function pgq.open_lane(
    v pgq.current_position, i_holder text, i_lease interval, i_dead_interval interval,
    i_min_lag interval, i_min_count int, i_min_interval interval, i_wanted int, i_filter jsonb)
returns pgq.current_position language plpgsql as $$
declare
    c_until constant timestamptz := pgq.lease_end(i_lease);
    c_soon constant interval := '0.5 seconds';
    s pgq.current_position;
    r record;
    v_next bigint;
begin
    if v.pos_batch is null then
        v_next := pgq.find_lane_tick(v, i_min_lag, i_min_count, i_min_interval, i_wanted);
        if v_next is null then
            return null;
        end if;
        r := pgq.skip_ranges(v, v_next, i_min_lag, i_min_count, i_min_interval);
        if r.next_tick is null and v.sub_stop_tick is null and exists (
                select from pgq.tick
                 where tick_queue = v.sub_queue and tick_id = (
                        select min(tick_id) from pgq.tick
                         where tick_queue = v.sub_queue and tick_id > v.pos_last_tick)
                   and tick_time between clock_timestamp() - c_soon and clock_timestamp()) then
            return null;
        end if;
    elsif not pgq.run_is_dead(v, i_dead_interval) then
        return null;
    end if;
    perform from pgq.registration where sub_id = v.sub_id for no key update skip locked;
    if not found then
        return null;
    end if;
    select * into s from pgq.current_position where sub_id = v.sub_id;
    if s.pos_no is distinct from v.pos_no or s.sub_detached is not null
            or s.sub_filter is distinct from v.sub_filter  -- by which ticks were skipped
            or s.sub_filter - 'lane' is distinct from coalesce(i_filter, '{}')
            or s.sub_stop_tick is distinct from v.sub_stop_tick
            or s.sub_stop_tick is null and exists (
                select from pgq.registration
                 where sub_parent = v.sub_parent and sub_stop_tick is not null)
            or s.pos_batch is not null and not pgq.run_is_dead(s, i_dead_interval) then
        return null;  -- another run was faster, or the lanes changed, or the filter
    end if;
    if s.pos_batch is not null then
        perform pgq.take_range(s, s, pgq.new_batch_id(), i_holder, c_until);
    elsif r.next_tick is null then
        perform pgq.move_position(s.sub_id, s.pos_no, r.last_tick, null, null,
            x_holder => s.pos_holder, x_part => s.pos_part);
        return null;
    else
        perform pgq.move_position(s.sub_id, s.pos_no, r.last_tick, r.next_tick,
            pgq.new_batch_id(),
            x_holder => i_holder, x_part => s.pos_part, x_until => c_until);
    end if;
    select * into s from pgq.current_position where sub_id = v.sub_id;
    return s;
end $$;
