-- Creates one of a queue's rotating tables: with full pages, because rows never change, and without
-- autovacuum, because TRUNCATE empties it.
-- Writes: create table, create index.
create or replace function pgq.create_event_table(q pgq.queue, i_number int)
returns void language plpgsql as $$
declare
    v_table constant text := pgq.event_table(q.queue_id, i_number);
begin
    execute format('create table pgq.%I () inherits (pgq.%I) with (fillfactor = 100, '
        'autovacuum_enabled = off, toast.autovacuum_enabled = off)',
        v_table, pgq.event_table(q.queue_id));
    execute format(
        'alter table pgq.%I alter ev_id set default nextval(%L)', v_table, q.queue_event_seq);
    execute format('create index %I on pgq.%I (ev_txid)', v_table || '_txid_idx', v_table);
end $$;
