-- Captures a table: from now on, each of its changes is an event of the queue. Of a partitioned
-- table, the changes of all partitions are events of the parent. A table that this queue captures
-- already gets its triggers anew: with the key and the name that it has now.
--
-- It has its caller's rights: the caller has the right TRIGGER on the table, and owns it if the
-- table is captured already. CREATE TRIGGER blocks writers, and waits for those that have begun: so
-- set lock_timeout, as pgqpy capture add does. All later writers see the triggers.
-- Parameters: i_always: capture what sessions write with session_replication_role = replica, too,
--   such as logical replication.
-- Raises: as check_capture; 42501; 55P03 lock_timeout.
-- Writes: as check_capture; drop trigger, create trigger.
create or replace function pgq.add_capture(
    i_queue_name text, i_table regclass, i_always boolean default false)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_args text := (
        select string_agg(quote_literal(arg), ', ' order by n)
          from unnest(pgq.check_capture(i_queue_name, i_table)) with ordinality a (arg, n));
begin
    perform pgq.remove_capture(i_table);
    execute format('create trigger "!pgq_capture" after insert or update or delete on %s '
        'for each row execute function pgq.capture(%s)', i_table, v_args);
    execute format('create trigger "!pgq_truncate" after truncate on %s '
        'for each statement execute function pgq.capture(%s)', i_table, v_args);
    if i_always then
        execute format('alter table %s enable always trigger "!pgq_capture", '
            'enable always trigger "!pgq_truncate"', i_table);
    end if;
end $$;
comment on function pgq.add_capture is 'Makes the changes of a table events of a queue.';
