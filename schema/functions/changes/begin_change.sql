-- Notes a change before it is made. Call it in a transaction of its own: it stays if the change
-- fails. The login is the session's, whatever role it has set.
-- Parameters: i_action: what is done, 1 to 200 characters. i_queue_name, i_consumer_name: of what;
--   they need not be there. i_arguments: with which arguments, an object of at most 10,000
--   characters of JSON; leave payloads out, because whoever may list changes sees them.
--   i_user_name: the user's name in the program, at most 200 characters.
-- Returns: the id for end_change.
-- Raises: PQ009.
-- Writes: insert pgq.change.
create or replace function pgq.begin_change(
    i_action text, i_queue_name text default null, i_consumer_name text default null,
    i_arguments jsonb default null, i_user_name text default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id bigint;
begin
    if i_action is null or length(i_action) not between 1 and 200 then
        raise exception 'an action must have 1 to 200 characters' using errcode = 'PQ009';
    elsif greatest(length(i_user_name), length(i_queue_name), length(i_consumer_name)) > 200 then
        raise exception 'names of users, queues and consumers must have at most 200 characters'
            using errcode = 'PQ009';
    elsif length(i_arguments::text) > 10000 or jsonb_typeof(i_arguments) <> 'object'
            or jsonb_path_exists(i_arguments, '$.**{20}')  -- which json of Python cannot read
            or jsonb_path_exists(i_arguments, '$.** ? (@ > 1e300 || @ < -1e300)') then
        raise exception 'arguments must be a JSON object of at most 10000 characters'
            using errcode = 'PQ009', hint = 'leave payloads out, give the number of ids instead of '
                'a long list; at most 20 levels, no number of more than 300 digits';
    end if;
    insert into pgq.change (
            change_action, change_queue, change_consumer, change_arguments, change_user)
    values (i_action, i_queue_name, i_consumer_name, i_arguments, i_user_name)
    returning change_id into v_id;
    return v_id;
end $$;
comment on function pgq.begin_change is 'Notes a change; returns the id for end_change.';
