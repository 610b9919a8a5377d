-- Gives the roles exactly their rights on a queue's sequences and tables. On the rotating tables
-- pgq_writer gets what a COPY needs: INSERT on the columns that a producer may fill, and on no
-- other. So a writer cannot forge ev_txid or ev_owner. While disable_insert is set, pgq_writer gets
-- no INSERT, because a COPY checks no setting.
-- Returns: 1.
-- Raises: PQ001.
-- Writes: row lock pgq.queue; revoke, grant.
create or replace function pgq.grant_perms(x_queue_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_load text[] := '{}';
begin
    perform from pgq.queue where queue_name = x_queue_name for no key update;
    q := pgq.find_queue(x_queue_name);
    if not q.queue_disable_insert then
        v_load := array(
            select 'pgq_writer insert ev_' || c
              from unnest('{time,type,data,extra1,extra2,extra3,extra4}'::text[]) c);
    end if;
    perform pgq.set_rights('pg_class', to_regclass(q.queue_tick_seq), '{public select}');
    perform pgq.set_rights('pg_class', to_regclass(q.queue_event_seq),
        '{public select,pgq_admin usage,pgq_writer usage}');
    perform pgq.set_rights('pg_class', to_regclass(q.queue_data_pfx), '{pgq_reader select}');
    perform pgq.set_rights('pg_class', inhrelid, v_load || 'pgq_reader select'::text)
       from pg_inherits where inhparent = to_regclass(q.queue_data_pfx);
    return 1;
end $$;
comment on function pgq.grant_perms is 'Gives the roles their rights on a queue''s tables.';
