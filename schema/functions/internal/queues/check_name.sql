-- Refuses a name that is NULL, empty, longer than i_octets octets, or has control characters.
-- Octets count, not characters, because a LISTEN channel and an identifier are limited in octets.
-- In SQL_ASCII the server takes any bytes. Clients read names as UTF-8. One that is not valid would
-- stop all of them: the ticker reads the names of all queues.
-- Parameters: i_kind: the kind of name, for messages.
-- Raises: PQ009.
-- Writes: nothing.
create or replace function pgq.check_name(i_kind text, i_name text, i_octets int)
returns void language plpgsql immutable as $$
begin
    if i_name is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = format('give the %s a name', i_kind);
    elsif i_name = '' then
        raise exception 'the % name is empty', i_kind using errcode = 'PQ009',
            hint = format('give the %s a name', i_kind);
    elsif octet_length(i_name) > i_octets then
        raise exception 'the % name has % octets, % is the limit',
            i_kind, octet_length(i_name), i_octets
            using errcode = 'PQ009', hint = 'choose a shorter name';
    elsif i_name ~ '[[:cntrl:]]' then
        raise exception 'the % name has a control character in it', i_kind using errcode = 'PQ009',
            hint = 'choose a name of printable characters';
    elsif getdatabaseencoding() = 'SQL_ASCII' then
        begin
            perform convert_from(convert_to(i_name, 'SQL_ASCII'), 'UTF8');
        exception when character_not_in_repertoire then
            raise exception 'the % name is not valid UTF-8', i_kind using errcode = 'PQ009',
                hint = 'send it in UTF-8, or choose a name in ASCII';
        end;
    end if;
end $$;
