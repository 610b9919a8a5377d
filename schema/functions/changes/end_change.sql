-- Notes how a change ended, once. Only the login that began it may.
-- Parameters: i_outcome: "done" or an error, for example; 1,000 characters are kept; in SQL_ASCII,
--   the whole characters of the first 1,000 octets.
-- Returns: 1; 0: this login began no such change, or it has ended already.
-- Raises: PQ009, i_outcome is null, or as check_utf8.
-- Writes: update pgq.change.
create or replace function pgq.end_change(i_change_id bigint, i_outcome text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off as $$
declare
    v_length int := 1000;
begin
    if i_outcome is null then
        raise exception 'an outcome must be a text' using errcode = 'PQ009';
    end if;
    perform pgq.check_utf8('outcome', i_outcome);
    -- In SQL_ASCII left() counts octets: do not cut inside a character.
    while getdatabaseencoding() = 'SQL_ASCII' and length(i_outcome) > v_length
            and get_byte(convert_to(i_outcome, 'SQL_ASCII'), v_length) & 192 = 128 loop
        v_length := v_length - 1;
    end loop;
    update pgq.change
       set change_outcome = left(i_outcome, v_length), change_ended = clock_timestamp()
     where change_id = i_change_id and change_login = session_user and change_ended is null;
    return found::int;
end $$;
comment on function pgq.end_change(bigint, text) is 'Notes how a change ended: 1, 0 it had ended.';
