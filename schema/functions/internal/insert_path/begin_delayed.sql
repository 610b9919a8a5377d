-- Begins the insert of delayed events: checks it, counts the events where the queue limits those of
-- a transaction, and notes that the transaction cannot become a stage.
-- Parameters: i_events: how many events the caller is about to insert.
-- Returns: the queue.
-- Raises: as count_insert, check_unstaged; PQ009 a time more than a century ahead.
-- Writes: as count_insert; the setting pgq.no_stage_<queue id>; takes an xid, before the caller
--   takes ids: see build_insert_leaf.
create or replace function pgq.begin_delayed(
    i_queue_name text, i_deliver_at timestamptz, i_events int)
returns pgq.queue language plpgsql as $$
declare
    q pgq.queue;
begin
    select * into q from pgq.queue where queue_name = i_queue_name;
    if q.queue_id is null or q.queue_disable_insert or q.queue_per_tx_limit is not null then
        perform pgq.count_insert(
            i_queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, i_events);
    end if;
    if to_regclass(q.queue_event_seq) is null then  -- an old snapshot still shows the queue
        perform pgq.raise_queue_not_found(i_queue_name);
    elsif i_deliver_at is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'give the time when the event is due';
    elsif i_deliver_at > now() + interval '100 years' then
        raise exception 'an event cannot be due at %', i_deliver_at using errcode = 'PQ009',
            hint = 'at most 100 years ahead';
    end if;
    perform pgq.check_unstaged(q.queue_id);
    perform set_config('pgq.no_stage_' || q.queue_id, 'on', true);  -- for open_stage
    perform txid_current();
    return q;
end $$;
