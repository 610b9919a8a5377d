-- Moves the position of a shared consumer over the next range, and leaves the range in a
-- subconsumer of receive as one that nobody holds. With a filter, ranges without an event are
-- skipped before: see skip_ranges. Ticks are merged until about a hundred events are in the range,
-- or a hundred ticks: else an idle time would cost a range for each tick. Of a range that take_part
-- has cut, it is the next part.
-- Parameters: i_parent: the consumer, locked by the caller.
-- Returns: the position of the subconsumer, all null when there is no range yet.
-- Raises: PQ015 as find_next_tick; PQ022, PQ009 as lease_slot; with a filter, as skip_ranges.
-- Writes: insert pgq.position; as lease_slot, skip_ranges.
create or replace function pgq.open_next_range(i_parent int)
returns pgq.current_position language plpgsql as $$
declare
    p pgq.current_position;
    s pgq.current_position;
    v_next bigint;
begin
    select * into p from pgq.current_position where sub_id = i_parent;
    v_next := case when p.pos_cuts is not null then p.pos_next_tick
        else pgq.find_next_tick(p, null, null, null) end;
    if v_next is not null and p.sub_filter is not null and p.pos_cuts is null then
        select last_tick, next_tick into p.pos_last_tick, v_next
          from pgq.skip_ranges(p, v_next, null, null, null);
        if v_next is null then
            perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, null, null);
        end if;
    end if;
    if v_next is null then
        return null;
    end if;
    s := pgq.lease_slot(i_parent, 'receive');
    if p.pos_cuts <> '{}' then
        perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, v_next, null,
            x_from => p.pos_cuts[1], x_cuts => p.pos_cuts[2:]);
    else
        if p.pos_cuts is null then
            v_next := greatest(v_next, (
                select max(t.tick_id)
                  from (select tick_id, tick_event_seq from pgq.tick
                         where tick_queue = p.sub_queue and tick_id > p.pos_last_tick
                         order by tick_id limit 100) t
                 where t.tick_event_seq <= 100 + (
                        select tick_event_seq from pgq.tick
                         where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1)));
        end if;
        perform pgq.move_position(p.sub_id, p.pos_no, v_next, null, null);
    end if;
    perform pgq.move_position(s.sub_id, s.pos_no, p.pos_last_tick, v_next,
        pgq.new_batch_id(), x_from => p.pos_from, x_until => '-infinity',
        x_to => p.pos_cuts[1]);
    select * into s from pgq.current_position where sub_id = s.sub_id;
    return s;
end $$;
