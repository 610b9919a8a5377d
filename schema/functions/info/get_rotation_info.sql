-- A queue's event tables, and what keeps the next one from being truncated. It reads no event: two
-- transaction ids of each table from an index, and ticks. Its transaction holds locks on the tables
-- that a rotation waits for, so keep it short.
-- Returns: a row for each table. state: current: inserts go there; next: the next rotation
--   truncates it; older. total_bytes: with indexes and TOAST; null, as the next two: a session
--   holds the table's lock for more than 100 ms. first_time, last_time: of the first ticks that may
--   see its first and its last transaction; null: it is empty. Of the next table only: due: when
--   the rotation is due by the clock; held_by, holder: see table_holder, also before it is due.
-- Raises: PQ001; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.get_rotation_info(
    i_queue_name text, out table_no int, out table_name text, out state text,
    out total_bytes bigint, out first_time timestamptz, out last_time timestamptz,
    out due timestamptz, out held_by text, out holder text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' as $$
declare
    q pgq.queue;
    v_first_tick bigint;
    v_last_tick bigint;
    v_first bigint;
    v_last bigint;
begin
    perform pgq.check_snapshot();
    q := pgq.find_queue(i_queue_name);
    select min(tick_id), max(tick_id) into v_first_tick, v_last_tick
      from pgq.tick where tick_queue = q.queue_id and tick_id >= q.queue_low_tick;
    for n in 0 .. q.queue_ntables - 1 loop
        table_no := n;
        table_name := 'pgq.' || pgq.event_table(q.queue_id, n);
        state := case n when q.queue_cur_table then 'current'
            when (q.queue_cur_table + 1) % q.queue_ntables then 'next' else 'older' end;
        total_bytes := null; first_time := null; last_time := null;
        due := null; held_by := null; holder := null;
        begin
            total_bytes := pg_total_relation_size(table_name::regclass);
            execute format('select min(ev_txid), max(ev_txid) from pgq.%I',
                pgq.event_table(q.queue_id, n)) into v_first, v_last;
            first_time := pgq.first_tick_time(
                q.queue_id, null, v_first, v_first_tick, v_last_tick);
            last_time := pgq.first_tick_time(
                q.queue_id, null, v_last, v_first_tick, v_last_tick);
            if state = 'next' then
                select t.* into held_by, holder from pgq.table_holder(q, n) t;
            end if;
        exception when lock_not_available or undefined_table then
            if state = 'next' then
                select 'transaction', pid::text into held_by, holder
                  from pg_locks where granted and relation = to_regclass(table_name)
                   and database = (select oid from pg_database where datname = current_database())
                   and mode = 'AccessExclusiveLock' limit 1;
            end if;
        end;
        if state = 'next' then
            due := case when q.queue_switch_time > clock_timestamp() then clock_timestamp()
                else q.queue_switch_time + q.queue_rotates_after end;  -- as is_rotation_due
        end if;
        return next;
    end loop;
end $$;
comment on function pgq.get_rotation_info is 'A queue''s event tables, and what keeps the next.';
