-- Inserts an event by the table's name: with all fields given, or into a queue that the session's
-- version of the generated code lacks (see build_insert_path). An old snapshot may still show a
-- dropped queue: its table is missing then.
-- Returns: the event's id.
-- Raises: PQ001.
-- Writes: insert into the queue's current table; nextval of its sequence.
create or replace function pgq.insert_row(
    i_queue_id int, x_id bigint, x_time timestamptz, x_owner int, x_retry int, x_type text,
    x_data text, x_extra1 text, x_extra2 text, x_extra3 text, x_extra4 text)
returns bigint language plpgsql as $$
declare
    q pgq.queue;
    v_txid bigint := txid_current();  -- before the id, as in build_insert_leaf
    v_table text;
    v_id bigint;
begin
    select * into q from pgq.queue where queue_id = i_queue_id;
    v_table := pgq.event_table(q.queue_id, q.queue_cur_table);
    if to_regclass(format('pgq.%I', v_table)) is null then
        raise exception 'No such queue' using errcode = 'PQ001',
            detail = format('queue number %s was dropped', i_queue_id);
    end if;
    execute format($sql$
        insert into pgq.%I (ev_id, ev_time, ev_txid, ev_owner, ev_retry,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        values (coalesce($1, nextval(%L::regclass)), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        returning ev_id$sql$, v_table, q.queue_event_seq)
        into v_id using x_id, x_time, v_txid, x_owner, x_retry,
            x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4;
    return v_id;
end $$;
