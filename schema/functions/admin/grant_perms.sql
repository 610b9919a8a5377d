-- Function: pgq.grant_perms(x_queue_name text)
--
-- Gives the roles their rights on a queue's sequences and tables: those of pgq.event_template, copied, and for
-- pgq_writer on the rotating tables what a COPY needs: the columns that a producer may choose, and no other. So a
-- writer can't forge ev_txid or ev_owner.
--
-- Returns: 1.
-- Raises: PQ001 Queue not found.
-- Writes: grant.
create or replace function pgq.grant_perms(x_queue_name text)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_table name;
    v_acl record;
begin
    select * into q from pgq.queue where queue_name = x_queue_name;
    if not found then
        raise exception 'Queue not found' using errcode = 'PQ001', detail = format('queue %s', x_queue_name);
    end if;
    execute format('grant select on sequence pgq.%I, pgq.%I to public', 'event_' || q.queue_id || '_tick_seq', 'event_' || q.queue_id || '_id_seq');
    execute format('grant usage on sequence pgq.%I to pgq_admin, pgq_writer', 'event_' || q.queue_id || '_id_seq');
    for v_table in
        select 'event_' || q.queue_id
        union all
        select relname from pg_inherits join pg_class on oid = inhrelid where inhparent = to_regclass(q.queue_data_pfx)
    loop
        for v_acl in
            select a.privilege_type, a.grantee::regrole::text as grantee
              from pg_class c cross join lateral aclexplode(c.relacl) a
             where c.oid = 'pgq.event_template'::regclass and a.grantee not in (0, c.relowner)
        loop
            execute format('grant %I on pgq.%I to %I', lower(v_acl.privilege_type), v_table, v_acl.grantee);
        end loop;
        if v_table <> 'event_' || q.queue_id then
            execute format('grant insert (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4) on pgq.%I to pgq_writer', v_table);
        end if;
    end loop;
    return 1;
end
$$;
comment on function pgq.grant_perms(text) is 'Gives the roles their rights on a queue''s tables.';
