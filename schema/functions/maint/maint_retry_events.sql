-- Inserts retried events again when their time has come: with the same id and time and a new txid,
-- for the one consumer that retries them. One call moves up to 30,000 events of each queue (10,000
-- from each of the three searches), in one statement a queue; two calls at once share them. A queue
-- that fails is a WARNING, with its name as the detail, and the others go on. A queue that may
-- need repair_queue (is_unchecked) is left out: an event that it got now would look old.
--
-- Deleted rows stay at the low end of the index by time, as dead rows, while a transaction holds
-- xmin back (G6). So the session remembers its last look that left nothing due: its time, and which
-- transactions it did not see. The next look reads what became due since, and what those
-- transactions inserted: they may have begun before the look, with a time that has passed. A row
-- with this state would leave dead rows itself. The setting's name holds the table's file number,
-- so that a new table (a restored dump) is read from its beginning.
--
-- Returns: how many events were moved; call until 0.
-- Writes: delete pgq.retry_queue; insert into the queues' current tables; nextval of their
--   sequences (so that a ticker sees new events); the session's setting pgq.retries_seen_<file>.
create or replace function pgq.maint_retry_events()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off set datestyle = 'ISO' set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    c_limit constant int := 10000;  -- of each search
    v_setting constant text := 'pgq.retries_seen_' || pg_relation_filenode('pgq.retry_queue');
    v_seen constant text[] := string_to_array(nullif(current_setting(v_setting, true), ''), '|');
    v_from constant timestamptz := coalesce(v_seen[1], '-infinity');
    v_xmax constant bigint := v_seen[2];
    v_xip constant bigint[] := v_seen[3];
    -- a snapshot does not list its own transaction, which may still insert into the retry queue
    v_own constant bigint := pg_current_xact_id_if_assigned()::text::bigint;
    v_snapshot constant txid_snapshot := txid_current_snapshot();
    q pgq.queue;
    v_moved int;
    v_total int := 0;
begin
    for q in
        select * from pgq.queue due
         where queue_id in (select ev_queue from pgq.due_retries(v_from, v_xmax, v_xip))
           and not pgq.is_unchecked(due)
         order by queue_id
    loop
        begin
            execute format($sql$
                with due as (
                    delete from pgq.retry_queue
                     where (ev_owner, ev_id) in (
                            select ev_owner, ev_id from (
                                select * from pgq.retry_queue
                                 where ev_queue = $1 and ev_retry_after >= $2
                                   and ev_retry_after <= now()
                                 order by ev_retry_after limit $5 for update skip locked) due
                            union all
                            select ev_owner, ev_id from (
                                select * from pgq.retry_queue
                                 where ev_queue = $1 and ev_txid >= $3
                                   and ev_retry_after + interval '0' < $2
                                   and ev_retry_after + interval '0' <= now()
                                 order by ev_txid limit $5 for update skip locked) new
                            union all
                            select ev_owner, ev_id from (
                                select * from pgq.retry_queue
                                 where ev_queue = $1 and ev_txid = any ($4)
                                   and ev_retry_after + interval '0' < $2
                                   and ev_retry_after + interval '0' <= now()
                                 limit $5 for update skip locked) late)
                    returning *)
                insert into pgq.%I (ev_id, ev_time, ev_owner, ev_retry,
                    ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
                select ev_id, ev_time, ev_owner, ev_retry,
                       ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
                  from due order by ev_id$sql$, pgq.event_table(q.queue_id, q.queue_cur_table))
                using q.queue_id, v_from, v_xmax, v_xip, c_limit;
            get diagnostics v_moved = row_count;
            if v_moved > 0 then
                perform nextval(q.queue_event_seq::regclass);
                v_total := v_total + v_moved;
            end if;
        exception when others then
            raise warning '%', sqlerrm using errcode = sqlstate,
                detail = format('queue %s', q.queue_name);
        end;
    end loop;
    if not exists (
            select from pgq.due_retries(v_from, v_xmax, v_xip)
             where txid_visible_in_snapshot(ev_txid, v_snapshot)) then
        perform set_config(v_setting, concat_ws('|', now(), txid_snapshot_xmax(v_snapshot), array(
            select txid_snapshot_xip(v_snapshot)
            union all select v_own where v_own is not null)::text), false);
    end if;
    return v_total;
end $$;
comment on function pgq.maint_retry_events() is 'Inserts retried events again whose time has come.';
