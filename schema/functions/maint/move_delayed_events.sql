-- Inserts delayed events into their queues when they are due: with the id that the producer got,
-- the due time as ev_time, and this transaction as ev_txid. One call moves about 2,000 events (up
-- to that many from each of three searches), earliest due first. Queues take turns: the next call
-- begins with the next queue, so that an event of one queue waits for a call, not for the 100,000
-- of another. A queue that fails is a WARNING, with its name as the detail, and the others go on. A
-- queue that may need repair_queue (is_unchecked) is left out.
--
-- An event that is due earlier than another is in the same or an earlier batch, if both were
-- committed before they were due. Two calls at once, each with half of the events, could commit in
-- the other order. So a lock lets one session move at a time; another one moves nothing, and does
-- not wait. READ COMMITTED only: this transaction must see what the lock's last holder moved.
--
-- Which rows a poll reads: see poll_setting. The session keeps a poll of its own for each queue
-- that is behind (it failed, was left out, or has more due events than a call moves), so that one
-- of them makes no other's poll longer. A row that another session has locked is found again by its
-- transaction. A comparison of rows, with an order, can use only the index of both columns.
-- Parameters: i_left_out: queues that failed a moment ago, and are not to be tried now.
-- Returns: moved: how many events; call until 0. next_delayed, next_retry: how long until the next
--   delayed or retried event is due that is not due now; null: there is none. next_delayed 0: more
--   events are due than this call could move.
-- Raises: PQ013 not READ COMMITTED.
-- Writes: advisory lock; as move_due, note_poll; the session's settings pgq.delayed_turn and
--   pgq.due_seen_<file>_behind.
create or replace function pgq.move_delayed_events(
    i_left_out text[] default '{}', out moved int, out next_delayed interval,
    out next_retry interval)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set datestyle = 'ISO' set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off
set enable_incremental_sort = off set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    c_events constant int := 2000;
    c_queues constant int := 20;  -- the events of the first one wait until the last one is done
    c_locked constant int := 1000;
    v_setting constant text := pgq.poll_setting('delayed_event');
    v_last constant text := coalesce(current_setting(v_setting, true), '');
    v_turn constant int := coalesce(nullif(current_setting('pgq.delayed_turn', true), ''), '0');
    v_snapshot constant txid_snapshot := txid_current_snapshot();
    v_behind jsonb := coalesce(
        nullif(current_setting(v_setting || '_behind', true), ''), '{}');  -- polls by queue id
    v_still jsonb := '{}';
    v_left bigint[] := '{}';
    v_locked bigint[];
    v_room int;
    v_moved int;
    v_tried int := 0;
    v_failed boolean := false;
    v_more boolean := false;
    v_seen text;
    v_first timestamptz;
    v_any boolean;
    last record;
    poll record;
    q pgq.queue;
begin
    perform pgq.check_isolation('the move of delayed events');
    moved := 0;
    last := pgq.parse_poll(v_last);
    v_first := (
        select ev_deliver_at from pgq.delayed_event
         where ev_deliver_at >= last.seen_from order by ev_deliver_at limit 1);
    v_any := v_behind <> '{}' or (v_first <= now()) is true
        or exists (select from pgq.late_delayed(last.seen_xmax, last.seen_xip));
    if not v_any or pg_try_advisory_xact_lock(
            pgq.lock_number('engine'), pgq.lock_number('moving')) then
        for q in
            select * from pgq.queue due
             where v_any and (v_behind ? queue_id::text
                or (
                    select (ev_queue, ev_deliver_at) <= (due.queue_id, now())
                      from pgq.delayed_event
                     where (ev_queue, ev_deliver_at) >= (due.queue_id, last.seen_from)
                     order by ev_queue, ev_deliver_at limit 1)
                or queue_id in (
                    select ev_queue from pgq.late_delayed(last.seen_xmax, last.seen_xip)))
             order by queue_id <= v_turn, queue_id
        loop
            v_seen := coalesce(v_behind ->> q.queue_id::text, v_last);
            v_still := v_still || jsonb_build_object(q.queue_id, v_seen);
            v_room := c_events - moved;
            if v_room <= 0 or v_tried = c_queues then
                v_more := true;
                continue;
            end if;
            continue when q.queue_name = any (i_left_out) or pgq.is_unchecked(q);
            v_tried := v_tried + 1;
            perform set_config('pgq.delayed_turn', q.queue_id::text, false);
            poll := pgq.parse_poll(v_seen);
            begin
                v_moved := pgq.move_due(
                    q, 'delayed_event', poll.seen_from, poll.seen_xmax, poll.seen_xip, v_room);
                moved := moved + v_moved;
                if v_moved >= v_room then
                    v_more := true;
                    continue;
                end if;
                v_locked := array((
                    select ev_txid from pgq.delayed_event
                     where (ev_queue, ev_deliver_at) >= (q.queue_id, poll.seen_from)
                       and (ev_queue, ev_deliver_at) <= (q.queue_id, now())
                     order by ev_queue, ev_deliver_at limit c_locked)
                    union all (
                    select ev_txid from pgq.late_delayed(poll.seen_xmax, poll.seen_xip)
                     where ev_queue = q.queue_id limit c_locked));
                if cardinality(v_locked) < c_locked then
                    v_left := v_left || v_locked;
                    v_still := v_still - q.queue_id::text;
                end if;
            exception when others then
                v_failed := true;
                raise warning '%', sqlerrm using errcode = sqlstate,
                    detail = format('queue %s', q.queue_name);
            end;
        end loop;
        perform set_config(v_setting || '_behind', v_still::text, false);
        perform pgq.note_poll(v_setting, v_snapshot, v_left);
    end if;
    if v_first <= now() then
        v_first := (
            select ev_deliver_at from pgq.delayed_event
             where ev_deliver_at > now() order by ev_deliver_at limit 1);
    end if;
    -- Without progress, due events wait for other sessions, and the next call would find the same.
    next_delayed := case when v_more and (moved > 0 or v_failed) then interval '0'
                         else v_first - clock_timestamp() end;
    next_retry := (
        select ev_retry_after from pgq.retry_queue
         where ev_retry_after > now() and ev_retry_after < 'infinity'  -- see retry_time
         order by ev_retry_after limit 1) - clock_timestamp();
end $$;
comment on function pgq.move_delayed_events is 'Inserts delayed events that are due.';
