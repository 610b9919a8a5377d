-- Decides how a consumer runs: plain (next_batch, one process) or shared (take_part, workers). Its
-- first run decides that by itself. A change needs that nobody runs it: no batch is open, and no
-- session holds the advisory lock of the consumer or of a subconsumer. A consumer with one lane
-- goes on where that lane is. set_lanes gives a consumer lanes.
-- Parameters: i_mode: plain, shared, or null: the next run decides.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002 not a subscriber; PQ009 another mode; PQ013 not READ COMMITTED; PQ020 it is a
--   subconsumer, or a lane; PQ021 as check_idle, or it has several lanes.
-- Writes: row locks and update pgq.registration; insert pgq.position; as end_lanes,
--   remove_registration.
create or replace function pgq.set_consumer_mode(
    i_queue_name text, i_consumer_name text, i_mode text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
    lane record;
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    perform pgq.check_isolation('set_consumer_mode');
    if i_mode not in ('plain', 'shared') then
        raise exception 'no such mode: %', i_mode using errcode = 'PQ009',
            hint = 'plain: one process runs the consumer; shared: workers share it';
    end if;
    select sub_parent, sub_mode into r from pgq.registration where sub_id = v_sub for no key update;
    if r.sub_parent is not null or r.sub_mode = 'inflight' then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
    end if;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for update;
    perform pgq.check_idle(v_sub, i_queue_name, i_consumer_name);
    if r.sub_mode = 'lanes' then
        perform pgq.end_lanes(v_sub);
        if (select count(*) from pgq.registration where sub_parent = v_sub) > 1 then
            raise exception 'the consumer %/% has several lanes', i_queue_name, i_consumer_name
                using errcode = 'PQ021', hint = format('each has a position of its own: select '
                    'pgq.set_lanes(%L, %L, 1, %L), and run it until that is done', i_queue_name,
                    i_consumer_name, (
                    select sub_filter -> 'lane' ->> 2 from pgq.registration
                     where sub_parent = v_sub and sub_stop_tick is null limit 1));
        end if;
        select p.sub_id, p.sub_consumer, p.pos_last_tick into lane
          from pgq.current_position p where p.sub_parent = v_sub;
        perform from pgq.consumer where co_id = lane.sub_consumer for update;
        perform pgq.remove_registration(l) from pgq.registration l where l.sub_id = lane.sub_id;
        perform pgq.move_position(v_sub, pos_no, lane.pos_last_tick, null, null)
           from pgq.current_position where sub_id = v_sub;
    end if;
    update pgq.registration set sub_mode = i_mode
     where sub_id = v_sub and sub_mode is distinct from i_mode;
    return found::int;
end $$;
comment on function pgq.set_consumer_mode is 'Decides if workers share a consumer.';
