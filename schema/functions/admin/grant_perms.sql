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
    v_table regclass;
    v_acl record;
begin
    select * into q from pgq.queue where queue_name = x_queue_name;
    if not found then
        raise exception 'Queue not found' using errcode = 'PQ001', detail = format('queue %s', x_queue_name);
    end if;
    execute format('grant select on sequence %s, %s to public', q.queue_tick_seq, q.queue_event_seq);
    execute format('grant usage on sequence %s to pgq_admin, pgq_writer', q.queue_event_seq);
    for v_table in
        select pgq.quote_fqname(q.queue_data_pfx)::regclass
        union all
        select inhrelid::regclass from pg_inherits where inhparent = pgq.quote_fqname(q.queue_data_pfx)::regclass
    loop
        for v_acl in
            select a.privilege_type, a.grantee::regrole as grantee
              from pg_class c cross join lateral aclexplode(c.relacl) a
             where c.oid = 'pgq.event_template'::regclass and a.grantee not in (0, c.relowner)
        loop
            execute format('grant %s on %s to %s', v_acl.privilege_type, v_table, v_acl.grantee);
        end loop;
        if v_table <> pgq.quote_fqname(q.queue_data_pfx)::regclass then
            execute format('grant insert (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4) on %s to pgq_writer', v_table);
        end if;
    end loop;
    return 1;
end
$$;
comment on function pgq.grant_perms(text) is 'Gives the roles their rights on a queue''s tables.';
