-- Inserts retried events again when their time has come: with the same id and time and a new txid,
-- for the one consumer that retries them. One call moves up to 30,000 events of each queue (10,000
-- from each of the three searches), in one statement a queue; two calls at once share them. A queue
-- that fails is a WARNING, with its name as the detail, and the others go on. A queue that may
-- need repair_queue (is_unchecked) is left out: an event that it got now would look old.
--
-- Which rows a poll reads: see poll_setting.
-- Returns: how many events were moved; call until 0.
-- Writes: as move_due, note_poll.
create or replace function pgq.maint_retry_events()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set datestyle = 'ISO' set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
declare
    c_limit constant int := 10000;  -- of each search
    v_setting constant text := pgq.poll_setting('retry_queue');
    v_snapshot constant txid_snapshot := txid_current_snapshot();
    poll record;
    q pgq.queue;
    v_total int := 0;
begin
    poll := pgq.parse_poll(current_setting(v_setting, true));
    for q in
        select * from pgq.queue due
         where queue_id in (
            select ev_queue from pgq.due_retries(poll.seen_from, poll.seen_xmax, poll.seen_xip))
           and not pgq.is_unchecked(due)
         order by queue_id
    loop
        begin
            v_total := v_total + pgq.move_due(
                q, 'retry_queue', poll.seen_from, poll.seen_xmax, poll.seen_xip, c_limit);
        exception when others then
            raise warning '%', sqlerrm using errcode = sqlstate,
                detail = format('queue %s', q.queue_name);
        end;
    end loop;
    if not exists (
            select from pgq.due_retries(poll.seen_from, poll.seen_xmax, poll.seen_xip)
             where txid_visible_in_snapshot(ev_txid, v_snapshot)) then
        perform pgq.note_poll(v_setting, v_snapshot);
    end if;
    return v_total;
end $$;
comment on function pgq.maint_retry_events is 'Inserts retried events again whose time has come.';
