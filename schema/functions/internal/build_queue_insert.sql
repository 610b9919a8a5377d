-- Function: pgq.build_queue_insert(i_queue_id int)
--
-- Generates pgq.event_N_insert: one INSERT in static SQL for each table of queue N. PL/pgSQL plans static SQL once
-- a session; the same INSERT by EXECUTE is parsed and planned for each event and costs a third of the throughput.
--
-- The xid is taken before the id: a ticker that sees the sequence move finds the transaction among those in
-- progress, and ticks again when it ends. The table is locked before the sequence, as a COPY does: drop_queue waits for
-- them in this order, and the other one would be a deadlock with it.
--
-- A transaction may run an older version of the function than the queue has tables (see build_insert_path): a table
-- that it does not know is reached by name.
--
-- Writes: create function.
create or replace function pgq.build_queue_insert(i_queue_id int)
returns void language plpgsql as $$
declare
    q pgq.queue;
    v_parent text;
    v_inserts text := '';
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_values constant text := 'x_time, v_txid, x_owner, x_retry, x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4';
begin
    select * into q from pgq.queue where queue_id = i_queue_id;
    v_parent := pgq.quote_fqname(q.queue_data_pfx);
    for i in 0 .. q.queue_ntables - 1 loop
        v_inserts := v_inserts || format($sql$
    %1$s x_table = %2$s then
        insert into %3$s_%2$s (%4$s)
        values (coalesce(x_id, nextval(%6$L::regclass)), %5$s)
        returning ev_id into v_id;$sql$,
            case i when 0 then 'if' else 'elsif' end, i, v_parent, v_columns, v_values, q.queue_event_seq);
    end loop;
    execute format($sql$
create or replace function %1$s_insert(
    x_table int, x_id bigint, x_time timestamptz, x_owner int, x_retry int, x_type text, x_data text,
    x_extra1 text, x_extra2 text, x_extra3 text, x_extra4 text)
returns bigint language plpgsql as $body$
declare
    v_txid bigint := txid_current();
    v_id bigint;
begin%2$s
    else
        execute 'insert into %1$s_' || x_table || ' (%3$s) values (coalesce($1, nextval($12)), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)'
            ' returning ev_id' into v_id using x_id, %4$s, %5$L::regclass;
    end if;
    if x_id is not null then
        perform nextval(%5$L::regclass);  -- tells a ticker that something is new
    end if;
    return v_id;
end
$body$
$sql$, v_parent, v_inserts, v_columns, v_values, q.queue_event_seq);
    execute format('revoke execute on function %s_insert from public', pgq.quote_fqname(q.queue_data_pfx));
end
$$;
comment on function pgq.build_queue_insert(int) is 'Generates the static insert function of one queue.';
