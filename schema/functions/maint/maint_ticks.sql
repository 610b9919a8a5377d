-- Deletes ticks that nobody needs: those before the slowest consumer's tick and before the first
-- tick that a consumer may be moved to. One call deletes up to 2,000, because the ticker waits for
-- the queue's row meanwhile.
--
-- Most calls find nothing. But a call may have to walk over deleted rows that a transaction with an
-- old xmin keeps (G6). So the first read takes no lock, and the session remembers up to which tick
-- nothing is left. A row with this state would leave dead rows itself.
-- Returns: 1 call again at once, 0 done.
-- Raises: PQ001; PQ013 not READ COMMITTED: an older snapshot may show no positions, and all ticks
--   would look unneeded.
-- Writes: row lock pgq.queue; delete pgq.tick; the session's setting pgq.ticks_gone_<queue id>.
create or replace function pgq.maint_ticks(i_queue_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_chunk constant int := 2000;
    q pgq.queue;
    v_setting text;
    v_gone bigint;
    v_keep bigint;
    v_deleted int;
begin
    perform pgq.check_isolation('maint_ticks');
    q := pgq.find_queue(i_queue_name);
    v_keep := least(q.queue_low_tick, pgq.slowest_tick(q.queue_id));
    v_setting := 'pgq.ticks_gone_' || q.queue_id;
    v_gone := coalesce(nullif(current_setting(v_setting, true), '')::bigint, 0);
    if not exists (
            select from pgq.tick
             where tick_queue = q.queue_id and tick_id >= v_gone and tick_id < v_keep) then
        perform set_config(v_setting, v_keep::text, false);
        return 0;
    end if;
    perform from pgq.queue where queue_id = q.queue_id for update;
    q := pgq.find_queue(i_queue_name);
    v_keep := least(q.queue_low_tick, pgq.slowest_tick(q.queue_id));
    delete from pgq.tick
     where tick_queue = q.queue_id
       and tick_id in (
            select tick_id from pgq.tick
             where tick_queue = q.queue_id and tick_id >= v_gone and tick_id < v_keep
             order by tick_id limit v_chunk);
    get diagnostics v_deleted = row_count;
    return (v_deleted = v_chunk)::int;
end $$;
comment on function pgq.maint_ticks is 'Deletes unneeded ticks: 1 call again, 0 done.';
