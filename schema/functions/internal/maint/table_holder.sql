-- What keeps a queue's next rotation from truncating its table, apart from the clock. It asks what
-- maint_rotate_tables_step1 asks: whether the slowest consumer's tick, and that of the retention,
-- see all events of the table, and whether the table can be locked.
-- Parameters: i_table: the number of the table.
-- Returns: held_by: stage: one that is neither released nor dropped; ticker: the last tick does not
--   see all events; consumer; retention; transaction: a session holds a lock on the table, or on
--   that of lock_truncation_mark; null: nothing. holder: the stage's writer, the name of the
--   slowest consumer, the session's pid (null: a prepared transaction).
-- Raises: 55P03, the table is locked; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.table_holder(
    q pgq.queue, i_table int, out held_by text, out holder text)
returns record language plpgsql as $$
declare
    v_last bigint;
    v_tick bigint;
begin
    perform pgq.check_snapshot();
    select tick_id into v_last from pgq.tick
     where tick_queue = q.queue_id order by tick_id desc limit 1;
    if not pgq.tick_sees_table(q.queue_id, v_last, i_table) then
        execute format('select $1, stage_writer from pgq.stage s '
                'where stage_queue = $2 and stage_released_by is null '
                'and exists (select from pgq.%I where ev_txid = s.stage_txid) '
                'order by stage_time limit 1', pgq.event_table(q.queue_id, i_table))
            into held_by, holder using 'stage'::text, q.queue_id;
        held_by := coalesce(held_by, 'ticker');
        return;
    end if;
    select p.pos_last_tick, c.co_name into v_tick, holder
      from pgq.current_position p
      left join pgq.registration parent on parent.sub_id = p.sub_parent
      join pgq.consumer c on c.co_id = coalesce(parent.sub_consumer, p.sub_consumer)
     where p.sub_queue = q.queue_id and p.sub_detached is null and p.pos_last_tick is not null
     order by p.pos_last_tick, c.co_name limit 1;
    if found and not pgq.tick_sees_table(q.queue_id, v_tick, i_table) then
        held_by := 'consumer';
        return;
    end if;
    holder := null;
    v_tick := pgq.retained_tick(q);
    if v_tick is not null and not pgq.tick_sees_table(q.queue_id, v_tick, i_table) then
        held_by := 'retention';
        return;
    end if;
    select 'transaction', l.pid::text into held_by, holder
      from pg_locks l
     where l.locktype = 'relation' and l.granted
       and l.relation in (
            select oid from pg_class
             where relnamespace = 'pgq'::regnamespace
               and (relname = pgq.event_table(q.queue_id, i_table)
                    or relname ~ '^truncation_[0-9]+$'))
       and l.database = (select oid from pg_database where datname = current_database())
       and l.pid is distinct from pg_backend_pid()
     order by l.pid limit 1;
end $$;
