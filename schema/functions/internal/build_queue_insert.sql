-- Function: pgq.build_queue_insert(i_queue_id int)
--
-- Generates pgq.event_N_insert: one INSERT in static SQL for each table of queue N. PL/pgSQL plans static SQL once
-- a session; the same INSERT by EXECUTE is parsed and planned for each event and costs a third of the throughput.
--
-- The xid is taken before the id: a ticker that sees the sequence move finds the transaction among those in
-- progress, and ticks again when it ends.
--
-- A transaction may run an older version of the function than the queue has tables (see build_insert_path): a table
-- that it does not know is reached by name.
--
-- Writes: create function.
create or replace function pgq.build_queue_insert(i_queue_id int)
returns void language plpgsql as $$
declare
    q pgq.queue;
    v_inserts text := '';
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_values constant text := 'v_id, x_time, v_txid, x_owner, x_retry, x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4';
begin
    select * into q from pgq.queue where queue_id = i_queue_id;
    for i in 0 .. q.queue_ntables - 1 loop
        v_inserts := v_inserts || format($sql$
    %s x_table = %s then
        insert into %s (%s)
        values (%s);$sql$,
            case i when 0 then 'if' else 'elsif' end, i, pgq.quote_fqname(q.queue_data_pfx || '_' || i), v_columns, v_values);
    end loop;
    execute format($sql$
create or replace function %1$s_insert(
    x_table int, x_id bigint, x_time timestamptz, x_owner int, x_retry int, x_type text, x_data text,
    x_extra1 text, x_extra2 text, x_extra3 text, x_extra4 text)
returns bigint language plpgsql as $body$
declare
    v_txid bigint := txid_current();
    v_id bigint := nextval(%2$L::regclass);
begin
    if x_id is not null then
        v_id := x_id;
    end if;%3$s
    else
        execute 'insert into %1$s_' || x_table || ' (%4$s) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)'
            using %5$s;
    end if;
    return v_id;
end
$body$
$sql$, pgq.quote_fqname(q.queue_data_pfx), q.queue_event_seq, v_inserts, v_columns, v_values);
    execute format('revoke execute on function %s_insert from public', pgq.quote_fqname(q.queue_data_pfx));
end
$$;
comment on function pgq.build_queue_insert(int) is 'Generates the static insert function of one queue.';
