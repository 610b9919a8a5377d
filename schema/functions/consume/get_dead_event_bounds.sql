-- The ids of the newest dead events of a consumer: a program that must not read a million goes
-- through get_dead_events in bounded steps, from one id to another (i_after, i_before).
-- Parameters: i_before: only ids below it; null: all. i_limit: at most so many dead events.
-- Returns: first_id, last_id: the lowest and the highest id of these; null: there are none.
--   dead_events: how many they are. has_more: there are dead events below first_id.
-- Raises: PQ002 not a subscriber; PQ009 wrong i_limit.
create or replace function pgq.get_dead_event_bounds(
    i_queue_name text, i_consumer_name text, i_before bigint default null,
    i_limit int default 10000, out first_id bigint, out last_id bigint, out dead_events bigint,
    out has_more boolean)
returns record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    if i_limit is null or i_limit < 1 then
        raise exception 'limit must be 1 or more, not %', i_limit using errcode = 'PQ009';
    end if;
    select min(ev_id), max(ev_id), count(*) into first_id, last_id, dead_events
      from (
            select ev_id from pgq.dead_event
             where ev_owner = v_sub and ev_id < coalesce(i_before, 9223372036854775807)
             order by ev_id desc limit i_limit) newest;
    has_more := exists (
        select from pgq.dead_event where ev_owner = v_sub and ev_id < first_id);
end $$;
comment on function pgq.get_dead_event_bounds is 'The ids of a consumer''s newest dead events.';
