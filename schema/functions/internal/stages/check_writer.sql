-- Refuses a session that stages, commits or drops under the name of another role's writer. Names of
-- writers are not secret: a commit of epoch 10^18 in another writer's name would make all later
-- epochs of that writer count as done.
--
-- A name belongs to the role that used it first: the role of SET ROLE, else the login. A login that
-- is a member of that role may use the name. The name of a role that was dropped is free.
--
-- The caller has read the ledger, or locked its row, before this call. So what this function reads
-- is not older than what the caller read.
--
-- Raises: 42501 the name belongs to another role.
create or replace function pgq.check_writer(i_queue_name text, i_queue_id int, i_writer text)
returns void language plpgsql as $$
declare
    v_role text;
begin
    select role into v_role
      from (
            select ledger_role from pgq.ledger
             where ledger_queue = i_queue_id and ledger_writer = i_writer
            union all
            select stage_role from pgq.stage
             where stage_queue = i_queue_id and stage_writer = i_writer
               and stage_released_by is null) used (role)
      join pg_roles on rolname = role
     where not pg_has_role(session_user, oid, 'member')
     limit 1;
    if found then
        raise exception 'writer "%" on queue % belongs to role %', i_writer, i_queue_name, v_role
            using errcode = '42501', hint = format(
                'choose another name for the writer, or: grant %I to %I', v_role, session_user);
    end if;
end $$;
