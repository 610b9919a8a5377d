-- Whether a queue can capture a table: see add_capture, which has its caller's rights, and asks
-- this function.
-- Returns: the arguments of the triggers: queue, table, columns of the key.
-- Raises: PQ001; PQ009 the table cannot be captured, another queue captures it, or another table's
--   events have its name; as check_truncates.
-- Writes: advisory lock of the queue, against drop_queue.
create or replace function pgq.check_capture(i_queue_name text, i_table regclass)
returns text[] language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    c_name constant text := pgq.table_name(i_table);
    c_key constant text[] := pgq.capture_key(i_table);
    v_why text;
    v_other text;
begin
    perform pg_advisory_xact_lock_shared(pgq.lock_number('queue'), queue_id)
       from pgq.queue where queue_name = i_queue_name;
    q := pgq.find_queue(i_queue_name);
    select case
        when relkind not in ('r', 'p') then 'it is no table'
        when relpersistence = 't' then 'it is a temporary table'
        when relpersistence = 'u' then 'it is unlogged: a crash empties it without an event'
        when relispartition
            then 'it is a partition: capture ' || pgq.table_name(pg_partition_root(i_table))
        when relkind = 'r' and exists (select from pg_inherits where inhparent = i_table)
            then 'other tables inherit from it, and their rows would bring no event'
        when exists (
                select from pg_partition_tree(i_table) join pg_class f on f.oid = relid
                 where f.relkind = 'f') then 'one of its partitions is a foreign table'
        when relnamespace in (
                'pgq'::regnamespace, 'pgq_coop'::regnamespace, 'pg_catalog'::regnamespace)
            then 'it belongs to the system'
        when q.queue_external_ticker
            then format('the ticks of queue %s come from another database', i_queue_name)
        when c_key is null then 'it has no primary key, and no unique index of NOT NULL columns; '
            'one that is deferrable or partial does not count'
        end into v_why
      from pg_class where oid = i_table;
    if not found or v_why is not null then
        raise exception 'table % cannot be captured: %', coalesce(c_name, i_table::text),
            coalesce(v_why, 'it does not exist') using errcode = 'PQ009';
    end if;
    select queue_name into v_other from pgq.get_captures()
     where table_id = i_table and queue_name <> i_queue_name;
    if found then
        raise exception 'table % is captured by queue %', c_name, v_other using errcode = 'PQ009',
            hint = format('pgqpy capture remove %s', i_table);
    end if;
    select table_id::text into v_other from pgq.get_captures(i_queue_name)
     where table_name = c_name and table_id <> i_table;
    if found then
        raise exception 'table % has events with the name %', v_other, c_name
            using errcode = 'PQ009', hint = format('pgqpy capture add %s --queue %s gives them the '
                'new name, pgqpy capture remove %s ends its capture',
                v_other, i_queue_name, v_other);
    end if;
    perform pgq.check_truncates(r, c_name) from pgq.registration r where sub_queue = q.queue_id;
    return array[i_queue_name, c_name] || c_key;
end $$;
comment on function pgq.check_capture is 'Whether a queue can capture a table.';
