-- Whether a dead event is wanted. The planner puts the expression in place of the call.
-- Parameters: each filter may be null: then it takes every event. i_type, i_error: equal to the
--   event's type and to the exception's class; '': those that have none. i_since, i_until: it died
--   at the first or later, and before the second.
create or replace function pgq.dead_event_matches(
    d pgq.dead_event, i_event_ids bigint[], i_type text, i_error text, i_since timestamptz,
    i_until timestamptz)
returns boolean language sql immutable as $$
    select (i_event_ids is null or d.ev_id = any (i_event_ids))
       and (i_type is null or coalesce(d.ev_type, '') = i_type)
       and (i_error is null or coalesce(d.dead_error, '') = i_error)
       and (i_since is null or d.dead_time >= i_since)
       and (i_until is null or d.dead_time < i_until)
$$;
