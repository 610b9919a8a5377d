-- Refuses a text that is not valid UTF-8, in a database in SQL_ASCII, where the server takes any
-- bytes. Clients read texts as UTF-8, and one that is not valid would stop all of them: the ticker
-- reads the names of all queues, and all cron entries, at once. Elsewhere the server checks it.
-- Parameters: i_kind: the kind of text, for messages.
-- Raises: PQ009.
-- Writes: nothing.
create or replace function pgq.check_utf8(i_kind text, i_text text)
returns void language plpgsql immutable as $$
begin
    if getdatabaseencoding() = 'SQL_ASCII' then
        begin
            perform convert_from(convert_to(i_text, 'SQL_ASCII'), 'UTF8');
        exception when character_not_in_repertoire then
            raise exception 'the % is not valid UTF-8', i_kind using errcode = 'PQ009',
                hint = 'send it in UTF-8, or in ASCII';
        end;
    end if;
end $$;
