-- The changes that begin_change noted, the newest first.
-- Parameters: i_limit: at most this many, from 1 to 10,000. i_before: only ids below it.
-- Returns: outcome and end_time: null: it has not ended, or its program died.
-- Raises: PQ009 wrong i_limit.
create or replace function pgq.get_changes(
    i_limit int default 100, i_before bigint default null, out change_id bigint,
    out change_time timestamptz, out login_name text, out user_name text, out action text,
    out queue_name text, out consumer_name text, out arguments jsonb, out end_time timestamptz,
    out outcome text)
returns setof record language plpgsql stable security definer
set search_path = pg_catalog, pg_temp as $$
begin
    if i_limit is null or i_limit not between 1 and 10000 then
        raise exception 'limit must lie between 1 and 10000, not %', i_limit
            using errcode = 'PQ009';
    end if;
    return query
    select c.change_id, c.change_time, c.change_login, c.change_user, c.change_action,
           c.change_queue, c.change_consumer, c.change_arguments, c.change_ended, c.change_outcome
      from pgq.change c
     where c.change_id < coalesce(i_before, 9223372036854775807)
     order by c.change_id desc limit i_limit;
end $$;
comment on function pgq.get_changes is 'The changes that a dashboard noted, the newest first.';
