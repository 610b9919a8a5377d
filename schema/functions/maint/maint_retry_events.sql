-- Function: pgq.maint_retry_events()
--
-- Puts events back whose time has come: the same id and time, a new txid, for the one consumer that set them aside.
-- Up to 10,000 a queue and call, in one statement; two callers at once share them. A queue that fails is a WARNING,
-- and the others go on. A queue that waits for repair_queue is left alone: what it got now would look as if it were
-- old.
--
-- Returns: how many were put back; call until 0.
-- Writes: delete pgq.retry_queue; insert into the queues' current tables; nextval of their sequences (so that a ticker
--   sees that something is new).
create or replace function pgq.maint_retry_events()
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_system bigint := pgq.system_identifier();
    v_moved int;
    v_total int := 0;
begin
    for q in
        select * from pgq.queue
         where queue_id in (select ev_queue from pgq.retry_queue where ev_retry_after <= now())
           and queue_system_id is not distinct from v_system
           and not exists (select from pgq.tick where tick_queue = queue_id and tick_id = (select max(tick_id) from pgq.tick where tick_queue = queue_id)
                              and txid_snapshot_xmax(tick_snapshot) > txid_snapshot_xmax(txid_current_snapshot()))
         order by queue_id
    loop
        begin
            execute format($sql$
                with due as (
                    delete from pgq.retry_queue
                     where (ev_owner, ev_id) in (
                            select ev_owner, ev_id from pgq.retry_queue
                             where ev_queue = $1 and ev_retry_after <= now()
                             order by ev_retry_after limit 10000 for update skip locked)
                    returning *)
                insert into pgq.%I (ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
                select ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
                  from due order by ev_id$sql$, 'event_' || q.queue_id || '_' || q.queue_cur_table) using q.queue_id;
            get diagnostics v_moved = row_count;
            if v_moved > 0 then
                perform nextval(q.queue_event_seq::regclass);
                v_total := v_total + v_moved;
            end if;
        exception when others then
            raise warning 'queue %: %', q.queue_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
    return v_total;
end
$$;
comment on function pgq.maint_retry_events() is 'Puts retried events back whose time has come.';
