-- Renames a queue. What belongs to the queue names its id, and follows: positions, open batches,
-- events of all kinds, cron entries, stages, keys, archives. So it waits for no producer and no
-- reader. From the commit on, a call by the old name raises PQ026: see raise_if_renamed.
--
-- Triggers name the queue: writes to their tables would fail. So it is refused while a trigger has
-- the old name. A trigger of an open transaction is seen only if add_capture makes it.
-- Returns: 1.
-- Raises: PQ001, PQ026; PQ009 as check_name, or a queue has the new name; 2BP01 triggers have the
--   old one; PQ013 not READ COMMITTED: an older snapshot may not show a trigger.
-- Writes: advisory locks of create_queue and of the queue; update pgq.queue.
create or replace function pgq.rename_queue(i_queue_name text, i_new_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_triggers text;
begin
    perform pgq.check_isolation('rename_queue');
    perform pgq.check_name('queue', i_new_name, 59);
    perform pg_advisory_xact_lock(pgq.lock_number('engine'), pgq.lock_number('changing'));
    q := pgq.find_queue(i_queue_name);
    if exists (select from pgq.queue where queue_name = i_new_name) then
        raise exception 'queue % exists already', i_new_name using errcode = 'PQ009',
            hint = 'choose another name';
    end if;
    perform pg_advisory_xact_lock(pgq.lock_number('queue'), q.queue_id);  -- against add_capture
    v_triggers := (
        select string_agg(concat(quote_ident(tgname), ' of ', tgrelid::regclass), ', '
                   order by tgrelid::regclass::text, tgname)
          from pg_trigger
         where tgfoid = any ('{pgq.capture(), pgq.jsontriga(), pgq.logutriga(), pgq.sqltriga()}'
                   ::regprocedure[])
           and tgparentid = 0 and (pgq.trigger_args(tgargs))[1] = i_queue_name);
    if v_triggers is not null then
        raise exception 'cannot rename queue, triggers insert into it by its name'
            using errcode = '2BP01', detail = format('queue %s, triggers %s',
                i_queue_name, v_triggers),
            hint = 'in one transaction drop them, rename the queue, and create them with the new '
                'name; for captured tables pgqpy queue rename does so';
    end if;
    update pgq.queue set queue_former_names = array_remove(queue_former_names, i_new_name)
     where i_new_name = any (queue_former_names);
    update pgq.queue
       set queue_name = i_new_name, queue_former_names = queue_former_names || i_queue_name
     where queue_id = q.queue_id;
    return 1;
end $$;
comment on function pgq.rename_queue is 'Renames a queue; all that belongs to it follows.';
