-- Subscribes a consumer from a tick on, or moves a subscribed consumer there. Its open batch is
-- dropped; its retried events stay. With a null tick, a new consumer starts from the last tick, and
-- a subscribed one stays where it is.
--
-- The queue's row is share-locked. A rotation and maint_ticks lock it for update, so neither can
-- count the consumers while one is coming, and then remove what that one starts from. The
-- consumer's name is locked against unregister_consumer, which deletes unused names.
--
-- A snapshot does not list the transaction that takes it among those in progress. So a tick that
-- this transaction made may see the transaction's own xid, and the events that it inserts from now
-- on would count as seen. No other session sees that tick yet, so it is corrected here.
--
-- Returns: 1 new, 0 was subscribed.
-- Raises: PQ001; PQ005 cannot reposition, or no ticks; PQ009 a bad consumer name; 40001 in
--   REPEATABLE READ, the queue rotated, another session moved the position, or as check_snapshot.
-- Writes: key share lock pgq.queue, pgq.consumer; row lock pgq.registration; insert pgq.consumer,
--   pgq.registration, pgq.position; update pgq.tick, if it is this transaction's own; as
--   check_snapshot.
create or replace function pgq.register_consumer_at(
    x_queue_name text, x_consumer_name text, x_tick_pos bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
    q pgq.queue;
    v_sub int;
    v_consumer int;
    v_new int := 0;
    v_tick bigint := x_tick_pos;
begin
    perform pgq.check_name('consumer', x_consumer_name, 255);
    select * into q from pgq.queue where queue_name = x_queue_name for key share;
    if not found then
        perform pgq.raise_queue_not_found(x_queue_name);
    end if;
    perform pgq.check_snapshot();
    if v_tick is null then
        v_tick := (select max(tick_id) from pgq.tick where tick_queue = q.queue_id);
        if v_tick is null then
            raise exception 'No ticks for this queue.  Please run ticker on database.'
                using errcode = 'PQ005';
        end if;
    elsif v_tick < q.queue_low_tick
            or not exists (
                select from pgq.tick where tick_queue = q.queue_id and tick_id = v_tick) then
        raise exception 'cannot reposition, tick not found: %', v_tick using errcode = 'PQ005',
            hint = (select format('the queue keeps ticks %s to %s, of the older ones one a second; '
                              'the last before this one: %s', min(tick_id), max(tick_id),
                              coalesce(max(tick_id) filter (where tick_id < v_tick)::text, 'none'))
                      from pgq.tick where tick_queue = q.queue_id and tick_id >= q.queue_low_tick);
    end if;
    update pgq.tick
       set tick_snapshot = concat_ws(':',
               txid_snapshot_xmin(tick_snapshot), txid_snapshot_xmax(tick_snapshot), (
                select string_agg(x::text, ',' order by x)
                  from (select txid_snapshot_xip(tick_snapshot) union select txid_current()) xip (x)
               ))::txid_snapshot
     where tick_queue = q.queue_id and tick_id = v_tick
       and txid_current() >= txid_snapshot_xmin(tick_snapshot)
       and txid_visible_in_snapshot(txid_current(), tick_snapshot);
    loop
        -- lock the registration before the name, as unregister_consumer does
        select s.sub_id into v_sub
          from pgq.registration s
          join pgq.consumer c on c.co_id = s.sub_consumer
         where s.sub_queue = q.queue_id and c.co_name = x_consumer_name
           for no key update of s;
        exit when found;
        select co_id into v_consumer from pgq.consumer
         where co_name = x_consumer_name for key share;
        if not found then
            insert into pgq.consumer (co_name) values (x_consumer_name) on conflict do nothing;
        else
            insert into pgq.registration (sub_queue, sub_consumer)
            values (q.queue_id, v_consumer) on conflict do nothing;
            get diagnostics v_new = row_count;
        end if;
    end loop;
    if v_new = 1 or x_tick_pos is not null then
        perform pgq.move_position(v_sub, coalesce(
            (select pos_no from pgq.current_position where sub_id = v_sub), 0), v_tick, null, null);
    end if;
    return v_new;
end $$;
comment on function pgq.register_consumer_at(text, text, bigint)
    is 'Subscribes a consumer from a tick on, or moves it there.';
