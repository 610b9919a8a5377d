-- The table of the history that the next row goes into. It is the one of the last row, or the next
-- one when the first row there is twelve hours old; that is truncated then, and its rows are 24
-- hours old and older. While a reader holds the lock, such as pg_dump, the last table grows on.
--
-- A last row that lies more than an hour in the future was written before the clock was stepped
-- back. No row would be written until then, so the history begins anew.
-- Returns: table_no: its number; is_new: it has no row. No row if the last one is younger than
--   i_pause.
-- Writes: ACCESS EXCLUSIVE lock and truncate of one table of the history, or of all.
create or replace function pgq.choose_history(
    i_now timestamptz, i_pause interval, out table_no int, out is_new boolean)
returns setof record language plpgsql set lock_timeout = '50ms' as $$
declare
    v_last timestamptz;
begin
    select hist_time, (select right(relname, 1)::int from pg_class where oid = h.tableoid)
      into v_last, table_no
      from pgq.history h order by hist_time desc limit 1;
    if v_last > i_now + interval '1 hour' then
        truncate pgq.history_0, pgq.history_1, pgq.history_2;
        v_last := null;
    end if;
    if v_last > i_now - i_pause then
        return;
    end if;
    is_new := v_last is null;
    table_no := coalesce(table_no, 0);
    if not is_new and (
            select min(hist_time) < i_now - interval '12 hours' from pgq.history
             where tableoid = to_regclass('pgq.history_' || table_no)) then
        begin
            execute format('truncate pgq.%I', 'history_' || (table_no + 1) % 3);
            table_no := (table_no + 1) % 3;
            is_new := true;
        exception when lock_not_available then
            null;
        end;
    end if;
    return next;
end $$;
