-- Moves due rows of one queue from pgq.retry_queue or pgq.delayed_event into its current table, in
-- one statement. The searches are those of due_retries and late_delayed, for this queue. Rows that
-- another session has locked are left.
--
-- The rows are chosen once, into an array. The simple form, `where ... in (select ...)`, fails with
-- statistics from when the table was empty: the planner takes a nested loop and repeats the choice
-- for each row. That takes minutes, and exceeds the limit.
--
-- It uses up as many ids as it moves, so that a ticker and estimates by the sequence count them.
-- Parameters: i_table: retry_queue: events keep their time; the earliest due come first.
--   delayed_event: their time is when they are due. i_from, i_xmax, i_xip: from parse_poll.
--   i_limit: rows of each search.
-- Returns: how many events were moved.
-- Raises: PQ009 delayed events in a transaction that is a stage, and would be hidden with it.
-- Writes: delete pgq.retry_queue or pgq.delayed_event; insert into the queue's current table;
--   nextval of its sequence; the setting pgq.no_stage_<queue id> for delayed events.
create or replace function pgq.move_due(
    q pgq.queue, i_table text, i_from timestamptz, i_xmax bigint, i_xip bigint[], i_limit int)
returns int language plpgsql as $$
declare
    v_delayed constant boolean := i_table = 'delayed_event';
    v_due constant text := case when v_delayed then 'ev_deliver_at' else 'ev_retry_after' end;
    v_moved int;
begin
    if v_delayed then
        perform pgq.check_unstaged(q.queue_id);
    end if;
    execute format($sql$
        with due as (
            delete from pgq.%1$I
             where ctid = any (array(
                    select ctid from (
                        select ctid from pgq.%1$I
                         where %3$s
                         order by ev_queue, %2$I limit $5 for update skip locked) due
                    union all
                    select ctid from (
                        select ctid from pgq.%1$I
                         where ev_queue = $1 and ev_txid >= $3
                           and %2$I + interval '0' < $2 and %2$I + interval '0' <= now()
                         order by ev_txid limit $5 for update skip locked) new
                    union all
                    select ctid from (
                        select ctid from pgq.%1$I
                         where ev_queue = $1 and ev_txid = any ($4)
                           and %2$I + interval '0' < $2 and %2$I + interval '0' <= now()
                         limit $5 for update skip locked) late))
            returning *)
        insert into pgq.%4$I (ev_id, ev_time, ev_owner, ev_retry,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select ev_id, %5$I, ev_owner, ev_retry,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from due order by ev_id$sql$,
        i_table, v_due,
        case when v_delayed  -- see move_delayed_events
            then '(ev_queue, ev_deliver_at) >= ($1, $2) '
                'and (ev_queue, ev_deliver_at) <= ($1, now())'
            else 'ev_queue = $1 and ev_retry_after >= $2 and ev_retry_after <= now()' end,
        pgq.event_table(q.queue_id, q.queue_cur_table),
        case when v_delayed then 'ev_deliver_at' else 'ev_time' end)
        using q.queue_id, i_from, i_xmax, i_xip, i_limit;
    get diagnostics v_moved = row_count;
    perform nextval(q.queue_event_seq::regclass) from generate_series(1, v_moved);
    if v_delayed and v_moved > 0 then
        perform set_config('pgq.no_stage_' || q.queue_id, 'on', true);  -- for open_stage
    end if;
    return v_moved;
end $$;
