-- Attaches a detached consumer again. It goes on where it was, with its open batches and all, if no
-- event after its position was truncated. Its retried events are due at once; they get this
-- transaction's id, by which maint_retry_events finds what commits after its last poll. The queue's
-- row is share-locked as in register_consumer_at.
-- Parameters: i_from_earliest: if events are gone, go on from the earliest tick, as seek_consumer.
-- Returns: 1; 0 it was attached.
-- Raises: PQ001; PQ002 not a subscriber; PQ013 not READ COMMITTED; PQ016 events after its position
--   are gone; PQ020 it is a subconsumer; as seek_consumer.
-- Writes: key share lock pgq.queue; row lock and update pgq.registration; update pgq.retry_queue;
--   as seek_consumer.
create or replace function pgq.reattach_consumer(
    i_queue_name text, i_consumer_name text, i_from_earliest boolean default false)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    r pgq.registration;
    v_sub int;
    v_tick bigint;
    v_first pgq.tick;
begin
    perform pgq.check_isolation('reattach_consumer');
    perform from pgq.queue where queue_name = i_queue_name for key share;
    q := pgq.find_queue(i_queue_name);  -- the statement that locks the row may return an older one
    v_sub := pgq.find_subscription(i_queue_name, i_consumer_name);
    select * into r from pgq.registration where sub_id = v_sub for update;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for update;
    if r.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
    elsif r.sub_detached is null then
        return 0;
    end if;
    v_tick := (select min(pos_last_tick) from pgq.current_position
         where v_sub in (sub_id, sub_parent));
    select * into v_first from pgq.tick
     where tick_queue = q.queue_id and tick_id >= q.queue_low_tick order by tick_id limit 1;
    if v_tick < v_first.tick_id and i_from_earliest is not true then
        raise exception 'events after tick % of the consumer %/% are gone: the earliest tick left '
            'is %, of %', v_tick, i_queue_name, i_consumer_name, v_first.tick_id, v_first.tick_time
            using errcode = 'PQ016',
            detail = format('tick_id=%s, first_tick=%s, last_tick=%s', v_tick, v_first.tick_id, (
                select max(tick_id) from pgq.tick where tick_queue = q.queue_id)),
            hint = format('to go on from there: select pgq.reattach_consumer(%L, %L, true), or '
                'pgqpy consumer set with attached=earliest', i_queue_name, i_consumer_name);
    end if;
    update pgq.registration set sub_detached = null where v_sub in (sub_id, sub_parent);
    update pgq.retry_queue set ev_retry_after = clock_timestamp(), ev_txid = txid_current()
     where ev_owner = v_sub and ev_retry_after = 'infinity';
    if v_tick < v_first.tick_id then
        perform pgq.seek_consumer(i_queue_name, i_consumer_name, v_first.tick_id);
    end if;
    return 1;
end $$;
comment on function pgq.reattach_consumer is 'Attaches a detached consumer again.';
