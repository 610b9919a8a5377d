-- Function: pgq.create_event_table(q pgq.queue, i_number int)
--
-- Makes one of a queue's rotating tables.
--
-- Writes: create table, create index.
create or replace function pgq.create_event_table(q pgq.queue, i_number int)
returns void language plpgsql as $$
declare
    v_table text := pgq.quote_fqname(q.queue_data_pfx || '_' || i_number);
begin
    execute format('create table %s () inherits (%s)', v_table, pgq.quote_fqname(q.queue_data_pfx));
    execute format('alter table %s alter ev_id set default nextval(%L)', v_table, q.queue_event_seq);
    execute format('create index %I on %s (ev_txid)',
        split_part(q.queue_data_pfx, '.', 2) || '_' || i_number || '_txid_idx', v_table);
end
$$;
comment on function pgq.create_event_table(pgq.queue, int) is 'Makes one of a queue''s rotating tables.';
