-- Refuses a name that is NULL, empty, longer than i_octets octets, or has control characters.
-- Octets count, because a LISTEN channel and an identifier are limited in octets.
-- Parameters: i_kind: the kind of name, for messages.
-- Raises: PQ009.
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
    end if;
end $$;
