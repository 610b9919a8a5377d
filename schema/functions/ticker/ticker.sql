-- Ticks a queue if it is due by PGQ's rule: see find_due.
-- Returns: the tick's id; null when it is not due, or the queue is being dropped.
-- Raises: PQ001; PQ011 external tick source, or paused; as insert_tick.
-- Writes: as insert_tick; nothing, not even an xid, when it is not due.
create or replace function pgq.ticker(i_queue_name text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(i_queue_name);
begin
    if q.queue_external_ticker then
        raise exception 'This queue has external tick source.' using errcode = 'PQ011',
            detail = format('queue %s', i_queue_name);
    elsif q.queue_ticker_paused then
        raise exception 'Ticker has been paused for this queue' using errcode = 'PQ011',
            detail = format('queue %s', i_queue_name),
            hint = format(
                'select pgq.set_queue_config(%L, ''ticker_paused'', ''false'')', i_queue_name);
    elsif pgq.find_due(q.queue_id, q.queue_id) is null then
        return null;
    end if;
    -- another ticker may have been faster: check again with the lock
    perform from pgq.queue where queue_id = q.queue_id for no key update;
    if pgq.find_due(q.queue_id, q.queue_id) is null then
        return null;
    end if;
    return (select tick_id from pgq.insert_tick(q.queue_id, null, null, null));
end $$;
comment on function pgq.ticker(text) is 'Ticks a queue if it is due.';

-- Ticks every queue that is due, in the order of their names. Queues that are paused or have an
-- external ticker are left out. A queue that fails is a WARNING, and the others go on (G7).
-- Returns: how many queues were ticked.
-- Raises: PQ013 not READ COMMITTED.
-- Writes: as ticker(text).
create or replace function pgq.ticker()
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_name text;
    v_ticked bigint := 0;
begin
    perform pgq.check_isolation('a tick');
    for v_name in
        select queue_name from pgq.queue where not queue_external_ticker and not queue_ticker_paused
         order by queue_name
    loop
        begin
            if pgq.ticker(v_name) is not null then
                v_ticked := v_ticked + 1;
            end if;
        exception when others then
            raise warning 'queue %: %', v_name, sqlerrm using errcode = sqlstate;
        end;
    end loop;
    return v_ticked;
end $$;
comment on function pgq.ticker() is 'Ticks every queue that is due.';

-- Inserts a tick of an external ticker, and moves both sequences up to its numbers. Ids and
-- sequence numbers go up to 2^62, times from 1970 to a century from now: every sum with them stays
-- in range.
-- Returns: the tick's id.
-- Raises: PQ011 queue not found or ticker disabled; PQ009 a NULL, a value out of range, or a tick
--   id not beyond the last; as insert_tick.
-- Writes: as insert_tick, seq_setval.
create or replace function pgq.ticker(
    i_queue_name text, i_tick_id bigint, i_orig_timestamp timestamptz, i_event_seq bigint)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_most constant bigint := 1::bigint << 62;
    q pgq.queue;
begin
    if i_tick_id is null or i_orig_timestamp is null or i_event_seq is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009';
    elsif i_tick_id not between 1 and c_most or i_event_seq not between 0 and c_most
            or i_orig_timestamp not between 'epoch' and now() + interval '100 years' then
        raise exception 'a tick out of range: id %, time %, event sequence %', i_tick_id,
            i_orig_timestamp, i_event_seq using errcode = 'PQ009',
            hint = format('ids from 1, event sequences from 0, both up to %s; times from 1970 to '
                'a century from now', c_most);
    end if;
    select * into q from pgq.queue
     where queue_name = i_queue_name and queue_external_ticker and not queue_ticker_paused;
    if not found then
        raise exception 'queue not found or ticker disabled: %', i_queue_name
            using errcode = 'PQ011';
    end if;
    perform pgq.insert_tick(q.queue_id, i_tick_id, i_orig_timestamp, i_event_seq);
    perform pgq.seq_setval(q.queue_tick_seq, i_tick_id);  -- these two are not rolled back
    perform pgq.seq_setval(q.queue_event_seq, i_event_seq);
    return i_tick_id;
end $$;
comment on function pgq.ticker(text, bigint, timestamptz, bigint) is 'Inserts an external tick.';
