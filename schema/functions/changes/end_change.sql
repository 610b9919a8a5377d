-- Notes how a change ended, once. Only the login that began it may.
-- Parameters: i_outcome: "done" or an error, for example; 1,000 characters are kept.
-- Returns: 1; 0: this login began no such change, or it has ended already.
-- Raises: PQ009, i_outcome is null.
-- Writes: update pgq.change.
create or replace function pgq.end_change(i_change_id bigint, i_outcome text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if i_outcome is null then
        raise exception 'an outcome must be a text' using errcode = 'PQ009';
    end if;
    update pgq.change
       set change_outcome = left(i_outcome, 1000), change_ended = clock_timestamp()
     where change_id = i_change_id and change_login = session_user and change_ended is null;
    return found::int;
end $$;
comment on function pgq.end_change is 'Notes how a change ended: 1, 0 it had ended.';
