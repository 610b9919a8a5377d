-- Waits for sessions that create, drop or configure queues, for compactions and for rotations, and
-- keeps them away until the installation ends. They change rows of pg_class that grants change too,
-- which PostgreSQL refuses as "tuple concurrently updated". Compactions and rotations rename the
-- table that it locks: see lock_truncation_mark. A first installation has no such function yet, so
-- its loop is here once more.
-- Writes: advisory lock of create_queue; SHARE UPDATE EXCLUSIVE lock on each pgq.truncation_N: it
-- keeps compactions and rotations out, and no dump.
do $wait$
declare
    v_mark text;
begin
    perform pg_advisory_xact_lock(7366513, 2);  -- see lock_number
    loop
        begin
            for v_mark in
                select relname from pg_class
                 where relnamespace = to_regnamespace('pgq') and relkind = 'r'
                   and relname ~ '^truncation_[0-9]+$' order by relname
            loop
                execute format('lock table pgq.%I in share update exclusive mode', v_mark);
            end loop;
            exit;
        exception when undefined_table then
            null;
        end;
    end loop;
end $wait$;
