-- Fires a cron entry: inserts the event of the time that was planned, and plans the next time, in
-- one transaction. So each time is fired once, by any number of daemons that call at the same time
-- or crash. A daemon computes the times, the server's clock decides whether they have come.
--
-- i_due must be the planned time. Otherwise another daemon was faster, or the entry has changed:
-- nothing is done. The server cannot read schedules, so it trusts the times of a daemon within
-- bounds: a wrong daemon can delay events or plan one for each minute ahead, and cannot add events
-- for times that have passed, except those of an entry that makes up for 'all' missed ones.
--
-- The event table is locked before the entry's row, as in commit_stage: drop_queue begins with the
-- tables. A lock is waited for briefly, so that one queue does not delay the entries of others.
-- Parameters: i_version: of the entry that the caller has read. i_due: null: no time is planned
--   yet. i_time: the time of the event, i_due or, for missed times, one since; null: no event.
--   i_next: the next due time.
-- Returns: the event's id; null: nothing was inserted, as while the queue may need repair_queue
--   (is_unchecked): the event would look old.
-- Raises: PQ009 times that are no whole minutes, in disorder, or too far ahead, or the transaction
--   is a stage; PQ006, PQ007 as count_insert; 40001 in REPEATABLE READ, another session was faster;
--   42P01 the queue was dropped meanwhile; 55P03 another session has a lock.
-- Writes: ROW EXCLUSIVE lock on an event table; update pgq.cron; insert into the queue's current
--   table; nextval of its sequence.
create or replace function pgq.fire_cron(
    i_name text, i_version uuid, i_due timestamptz, i_time timestamptz, i_next timestamptz)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' as $$
declare
    q pgq.queue;
    c pgq.cron;
begin
    if (i_next > coalesce(i_time, i_due, '-infinity')
            and i_next < clock_timestamp() + interval '100 years'
            and i_next = date_trunc('minute', i_next)) is not true
       or (i_time >= i_due and i_time <= clock_timestamp()
            and i_time = date_trunc('minute', i_time)) is not true and i_time is not null then
        raise exception 'cron entry % cannot fire for % and then %', i_name, i_time, i_next
            using errcode = 'PQ009', hint = 'give whole minutes: the planned time, the event''s '
                'time from there up to now, and the next due time after it, within 100 years';
    end if;
    select * into q from pgq.queue
     where queue_id = (select cron_queue from pgq.cron where cron_name = i_name);
    if not found or pgq.is_unchecked(q) then
        return null;
    elsif i_time is not null then
        perform pgq.lock_current_table(q);
    end if;
    update pgq.cron e
       set cron_next = i_next, cron_planned = clock_timestamp(),
           cron_last_due = coalesce(i_time, cron_last_due)
     where cron_name = i_name and cron_version = i_version and cron_paused is null
       and pgq.planned_due(e) is not distinct from i_due
       and case when i_due is null then i_next > least(cron_planned, clock_timestamp())
                else cron_missed = 'all' or i_next > clock_timestamp() end
    returning * into c;
    if not found or i_time is null then
        return null;
    end if;
    perform pgq.check_unstaged(q.queue_id);
    perform pgq.count_insert(
        q.queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, 1);
    perform set_config('pgq.no_stage_' || q.queue_id, 'on', true);  -- for open_stage
    return pgq.insert_row(q.queue_id, null, i_time, null, null,
        c.ev_type, c.ev_data, c.ev_extra1, c.ev_extra2, c.ev_extra3, c.ev_extra4);
end $$;
comment on function pgq.fire_cron is 'Inserts a cron entry''s event, and plans its next time.';
