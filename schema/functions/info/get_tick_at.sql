-- The tick to go back to for a time: the last one before the first that is later. A tick's clock is
-- read after its snapshot is taken. So the events after the tick are all that were committed at the
-- time or later, and some from shortly before it. After the clock was stepped back, the last tick
-- that is earlier would be another one, and events would be missing. It begins at queue_low_tick:
-- before it are dead rows, while a transaction holds xmin back.
-- Parameters: i_time: infinity gives the last tick.
-- Returns: null if every tick that can be read from is later, or a parameter is null.
-- Raises: PQ001; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.get_tick_at(i_queue_name text, i_time timestamptz)
returns bigint language plpgsql strict security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_later bigint;
begin
    perform pgq.check_snapshot();
    q := pgq.find_queue(i_queue_name);
    select tick_id into v_later
      from pgq.tick
     where tick_queue = q.queue_id and tick_id >= q.queue_low_tick and tick_time > i_time
     order by tick_id limit 1;
    return (
        select max(tick_id) from pgq.tick
         where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
           and tick_id < coalesce(v_later, 9223372036854775807));
end $$;
comment on function pgq.get_tick_at is 'The last tick before all events from a time on.';
