-- The captured tables, and what is wrong with their capture: changes that bring no event, or fail.
-- Parameters: i_queue_name: only this queue's; null: all.
-- Returns: key_columns, table_name: as the triggers have them; problems: sentences, none if all is
--   well. What happened before the triggers were made last is not looked at. A partition that one
--   transaction has made and attached counts as made empty.
create or replace function pgq.get_captures(
    i_queue_name text default null, out queue_name text, out table_id regclass,
    out table_name text, out key_columns text[], out always boolean, out problems text[])
returns setof record language sql stable
security definer set search_path = pg_catalog, pg_temp as $$
    select args[1], tgrelid, args[2], args[3:], tgenabled = 'A', (with parts (relid) as (
            select tgrelid union select t.relid from pg_partition_tree(tgrelid) t)
        select array_remove(array[
        case when not exists (select from pgq.queue where queue_name = args[1])
            then format('queue %s does not exist: writes fail', args[1]) end,
        (select format('inserts into queue %s are disabled: writes fail', args[1])
           from pgq.queue where queue_name = args[1] and queue_disable_insert),
        case when pgq.table_name(tgrelid) <> args[2]
            then format('its events have its old name %s', args[2]) end,
        case when args[3:] is distinct from pgq.capture_key(tgrelid)
            then format('its key is not (%s) any more', array_to_string(args[3:], ', ')) end,
        case when not exists (
                select from pg_trigger o
                 where o.tgrelid = t.tgrelid and o.tgfoid = t.tgfoid and o.tgtype & 32 > 0
                   and o.tgenabled in ('O', 'A'))
            then 'the trigger "!pgq_truncate" is missing or disabled' end,
        (select 'the trigger "!pgq_capture" is missing or disabled on ' || string_agg(
                    pgq.table_name(relid), ', ' order by pgq.table_name(relid))
           from parts where not exists (
                select from pg_trigger o
                 where o.tgrelid = relid and o.tgfoid = t.tgfoid and o.tgtype & 1 > 0
                   and o.tgenabled in ('O', 'A')) having count(*) > 0),
        (select 'before the trigger "!pgq_capture" come others: '
                || string_agg(distinct format('%I of %s', o.tgname, pgq.table_name(relid)), ', ')
           from parts join pg_trigger o on o.tgrelid = relid
          where not o.tgisinternal and o.tgtype & 67 = 1 and o.tgname < t.tgname
            and o.tgenabled <> 'D' having count(*) > 0),
        (select 'tables inherit from it, and their rows bring no event: '
                || string_agg(pgq.table_name(inhrelid), ', ' order by pgq.table_name(inhrelid))
           from pg_inherits join pg_class c on c.oid = inhrelid
          where inhparent = tgrelid and not relispartition having count(*) > 0),
        (select 'a crash empties unlogged tables without an event: '
                || string_agg(pgq.table_name(relid), ', ' order by pgq.table_name(relid))
           from parts join pg_class c on c.oid = relid
          where relpersistence = 'u' having count(*) > 0),
        (select 'virtual columns are null in events: ' || string_agg(format('%I', attname), ', ')
           from pg_attribute
          where attrelid = tgrelid and attgenerated = 'v' having count(*) > 0),
        (select 'columns were added or altered, which is no event: '
                || string_agg(format('%I', attname), ', ' order by attnum)
           from pg_attribute a
          where attrelid = tgrelid and attnum > 0 and not attisdropped
            and age(a.xmin) < age(t.xmin) having count(*) > 0),
        (select 'partitions were attached, which is no event: '
                || string_agg(pgq.table_name(inhrelid), ', ')
           from pg_inherits i
          where inhparent in (select relid from parts) and exists (
                select from pg_class where oid = inhrelid and relispartition)
            and age(i.xmin) < age(t.xmin) and i.xmin <> (  -- of the transaction that made it
                select a.xmin from pg_attribute a
                 where attrelid = inhrelid and attname = 'tableoid')
         having count(*) > 0)], null))
      from (select *, pgq.trigger_args(tgargs) as args, pg_trigger.xmin from pg_trigger) t
     where tgfoid = 'pgq.capture()'::regprocedure and tgparentid = 0 and tgtype & 1 > 0
       and (i_queue_name is null or args[1] = i_queue_name)
     order by args[1], args[2]
$$;
comment on function pgq.get_captures is 'The captured tables, and what is wrong with them.';
