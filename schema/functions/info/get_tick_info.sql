-- The ticks of a queue after which every event is still there.
-- Parameters: i_from_tick, i_to_tick: the first and the last tick to list; null: no limit.
-- Returns: ordered by tick_id. events: how many event ids lie between the listed tick before and
--   this one, an estimate; null in the first row.
-- Raises: PQ001; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.get_tick_info(
    i_queue_name text, i_from_tick bigint default null, i_to_tick bigint default null,
    out tick_id bigint, out tick_time timestamptz, out tick_snapshot txid_snapshot,
    out tick_event_seq bigint, out events bigint)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
begin
    perform pgq.check_snapshot();
    q := pgq.find_queue(i_queue_name);
    return query
    select t.tick_id, t.tick_time, t.tick_snapshot, t.tick_event_seq,
           t.tick_event_seq - lag(t.tick_event_seq) over (order by t.tick_id)
      from pgq.tick t
     where t.tick_queue = q.queue_id
       and t.tick_id >= greatest(q.queue_low_tick, i_from_tick)
       and t.tick_id <= coalesce(i_to_tick, 9223372036854775807)
     order by t.tick_id;
end $$;
comment on function pgq.get_tick_info is 'The ticks that can be read from.';
