-- Refuses a shared consumer with a key that would get the TRUNCATE of a captured table. That has no
-- key: it could be handled before changes that came earlier, or beside them.
-- Parameters: i_table: a table, as types of events name it, that is to be captured as well.
-- Raises: PQ020.
-- Writes: nothing.
create or replace function pgq.check_truncates(s pgq.registration, i_table text default null)
returns void language plpgsql as $$
declare
    v_table text := (
        select name from (
            select table_name from pgq.queue cross join pgq.get_captures(queue_name)
             where queue_id = s.sub_queue
            union select i_table) captured (name)
         where s.sub_key is not null and name is not null
           and not coalesce(s.sub_filter ?| array['extra1', 'extra2', 'extra3', 'extra4'], false)
           and (s.sub_filter is null or exists (
                select from jsonb_array_elements_text(s.sub_filter -> 'types') t
                 where t = name || '.truncate'
                    or right(t, 1) = '*' and starts_with(name || '.truncate', left(t, -1))))
         limit 1);
begin
    if v_table is not null then
        raise exception 'consumer % has a key, and a TRUNCATE of table % has none',
            (select co_name from pgq.consumer where co_id = s.sub_consumer), v_table
            using errcode = 'PQ020', hint = format('take all types but that by a filter: %s',
                (select string_agg(format('%s.%s', v_table, op), ', ')
                   from unnest(array['insert', 'update', 'delete', 'snapshot']) op));
    end if;
end $$;
