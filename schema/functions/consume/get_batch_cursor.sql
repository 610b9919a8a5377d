-- Declares a cursor over a batch's events in the caller's transaction and returns the first events;
-- FETCH returns the rest. So a batch of any size is read in bounded memory (G8).
--
-- i_extra_where is raw SQL, so it runs with the caller's own rights and reads no more than the
-- caller may read. The caller's search_path decides what i_extra_where means. All other names are
-- qualified: else another role's public.format(text, text) would run with these rights. A condition
-- on a table with row-level security raises 42501: see range_sql.
-- Parameters: i_quick_limit: how many events to return; 0 or less: none. i_extra_where: an SQL
--   condition on the event's columns.
-- Returns: rows as get_batch_events; none if an argument but i_extra_where is NULL.
-- Raises: PQ003 batch not found; PQ012, 40001, 42501 as batch_event_sql.
-- Writes: as batch_event_sql.
create or replace function pgq.get_batch_cursor(
    i_batch_id bigint, i_cursor_name text, i_quick_limit int, i_extra_where text,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql as $$
declare
    v_sql text;
begin
    if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
        return;
    end if;
    v_sql := pgq.batch_event_sql(i_batch_id);
    if i_extra_where is not null then
        v_sql := pg_catalog.format(
            'select * from (%s) e where %s order by 1, 3', v_sql, i_extra_where);
    end if;
    execute pg_catalog.format('declare %I no scroll cursor for %s', i_cursor_name, v_sql);
    if i_quick_limit operator(pg_catalog.>) 0 then
        return query execute pg_catalog.format('fetch %s from %I', i_quick_limit, i_cursor_name);
    end if;
end $$;
comment on function pgq.get_batch_cursor(bigint, text, int, text)
    is 'Declares a cursor over a batch''s events that meet a condition.';

create or replace function pgq.get_batch_cursor(
    i_batch_id bigint, i_cursor_name text, i_quick_limit int,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language sql strict
begin atomic
    select * from pgq.get_batch_cursor(i_batch_id, i_cursor_name, i_quick_limit, null);
end;
comment on function pgq.get_batch_cursor(bigint, text, int)
    is 'Declares a cursor over a batch''s events.';
