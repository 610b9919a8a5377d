-- Appends a tick and notifies the channel pgq_<queue>. It is safe with any number of tickers: one
-- statement locks the queue's row, and a later statement takes the snapshot. In READ COMMITTED that
-- is younger than the commit of the previous holder of the lock. In REPEATABLE READ the snapshot
-- would be older, and a tick could see less than the tick before: such callers are refused.
--
-- The snapshot is taken before the sequence is read, so each event that the tick sees has an id up
-- to tick_event_seq. This holds for an external ticker too: its number counts only where it is
-- larger than the sequence.
--
-- A snapshot does not list its own transaction among those in progress: a consumer that this
-- transaction moves up to the tick would never get the events that it inserts from then on. So the
-- tick sees nothing of this transaction.
--
-- COMMIT fails while the server's NOTIFY queue is full. So a tick is announced only while there is
-- room: consumers find it at their next poll. Asking for the usage also removes what every listener
-- has read, so a full queue recovers. COMMIT with a NOTIFY waits for every other such COMMIT: a
-- ticker that cannot wait so long sets pgq.notify to off.
--
-- A logical copy of the database lacks the values of sequences. New ticks and events would take old
-- numbers there, and no consumer would come to them.
-- Parameters: i_tick_id, i_tick_time, i_event_seq: given by an external ticker; null: from the
--   sequences and the clock.
-- Raises: PQ009 a tick id that is not beyond the last one; PQ013 not READ COMMITTED; PQ012 a
--   sequence is behind the last tick, or there is none; as check_tick_order.
-- Writes: row lock and, once after a move, update pgq.queue; as mark_checked, at the first ticks of
--   a queue that is new, moved or repaired; insert pgq.tick_recent; nextval of the tick sequence;
--   NOTIFY as described.
create or replace function pgq.insert_tick(
    i_queue_id int, i_tick_id bigint, i_tick_time timestamptz, i_event_seq bigint,
    out tick_id bigint, out tick_snapshot txid_snapshot)
language plpgsql as $$
declare
    q pgq.queue;
    last pgq.tick;
    v_tick_seq bigint;
    v_event_seq bigint;
begin
    perform pgq.check_isolation('a tick');
    select * into q from pgq.queue where queue_id = i_queue_id for no key update;
    if not found then
        return;  -- dropped while we waited
    end if;
    select t.* into last
      from pgq.tick t where t.tick_queue = i_queue_id order by t.tick_id desc limit 1;
    if last.tick_id is null then
        perform pgq.raise_no_tick(q.queue_name);  -- the restore would bring a second tick 1
    elsif i_tick_id <= last.tick_id then
        raise exception 'tick % is not beyond the last tick %', i_tick_id, last.tick_id
            using errcode = 'PQ009';
    end if;
    if i_tick_id is null then
        v_tick_seq := pg_sequence_last_value(q.queue_tick_seq::regclass);
        if v_tick_seq is null then  -- it has begun anew: what would it give?
            execute format('select last_value - 1 from pgq.%I',
                pgq.event_table(q.queue_id) || '_tick_seq') into v_tick_seq;
        end if;
        if v_tick_seq < last.tick_id then
            perform pgq.raise_sequence_behind(  -- before it moves
                q, 'ticks', v_tick_seq + 1, last.tick_id);
        end if;
    end if;
    insert into pgq.tick_recent (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
    values (
        i_queue_id, coalesce(i_tick_id, nextval(q.queue_tick_seq::regclass)),
        coalesce(i_tick_time, clock_timestamp()), pgq.exclude_own_xid(txid_current_snapshot()),
        greatest(i_event_seq, pgq.seq_getval(q.queue_event_seq)))
    returning tick_recent.tick_id, tick_recent.tick_snapshot, tick_recent.tick_event_seq
         into insert_tick.tick_id, insert_tick.tick_snapshot, v_event_seq;
    if v_event_seq < last.tick_event_seq then
        perform pgq.raise_sequence_behind(q, 'events', v_event_seq + 1, last.tick_event_seq);
    end if;
    if pgq.check_tick_order(q, last, insert_tick.tick_snapshot) then
        update pgq.queue set queue_system_id = pgq.system_identifier()
         where queue_id = i_queue_id;
        perform pgq.mark_checked(i_queue_id, 1);
    elsif not exists (
            select from pgq.checked
             where checked_queue = i_queue_id and checked_number = 2) then
        -- the first tick may have come in the middle of a restore, which has brought others since
        select t.* into last from pgq.tick t where t.tick_queue = i_queue_id
         order by txid_snapshot_xmax(t.tick_snapshot) desc limit 1;
        perform pgq.check_tick_order(q, last, insert_tick.tick_snapshot);
        perform pgq.mark_checked(i_queue_id, 2);
    end if;
    if current_setting('pgq.notify', true) is distinct from 'off'
            and pg_notification_queue_usage() < 0.9 then
        perform pg_notify('pgq_' || q.queue_name, insert_tick.tick_id::text);
    end if;
end $$;
