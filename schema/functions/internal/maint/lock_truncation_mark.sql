-- Locks pgq.truncation_N, before a table is truncated that has rows which a dump may need.
--
-- pg_dump takes its snapshot first, and then locks the tables that it found, one by one. After a
-- truncation in between, the dump would lack what its snapshot needs, without an error. pg_dump
-- locks tables by the names that it found, so count_truncation makes it fail. A dump that has its
-- locks has locked this table, too: so the caller waits for it, or gives up.
--
-- pg_restore --clean over an installation leaves the table of before beside that of the dump: so
-- all of them are locked, in the order of their names. The caller has checked for READ COMMITTED:
-- an older snapshot shows the old name for ever, and the loop would not end.
-- Raises: 55P03 by lock_timeout.
-- Writes: ACCESS EXCLUSIVE lock on each pgq.truncation_N.
create or replace function pgq.lock_truncation_mark()
returns void language plpgsql as $$
declare
    v_mark text;
begin
    loop
        begin
            for v_mark in
                select relname from pg_class
                 where relnamespace = 'pgq'::regnamespace
                   and relname ~ '^truncation_[0-9]+$' order by relname
            loop
                execute format('lock table pgq.%I in access exclusive mode', v_mark);
            end loop;
            return;
        exception when undefined_table then  -- another session was faster, and renamed it
            null;
        end;
    end loop;
end $$;
