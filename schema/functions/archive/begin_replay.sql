-- Begins a replay of archived events for one consumer, or finds the one that was begun. After a
-- crash, even after the last commit, the caller calls again with the same i_asked, and continues
-- from the replay's position. A consumer has one replay at a time.
-- Parameters: i_asked: the caller's description of the replay, which identifies it. i_since,
--   i_until: the times of its events, from the first on, before the second. Those of the first call
--   count: an age in i_asked gives other times in the next call. i_again: begin anew.
-- Returns: the replay. An unfinished one with another i_asked is returned as it is: the caller
--   compares.
-- Raises: PQ002 not a subscriber; PQ009 a NULL; PQ017 the consumer reads ranges of ticks, which
--   have no retried events; PQ020 a subconsumer; PQ024 it is detached: the events that it
--   lost are after its position, so they would be left out; PQ013 not READ COMMITTED.
-- Writes: key share lock pgq.registration; insert or update pgq.replay.
create or replace function pgq.begin_replay(
    i_queue_name text, i_consumer_name text, i_asked text, i_since timestamptz,
    i_until timestamptz, i_again boolean default false)
returns pgq.replay language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    p pgq.current_position;
    r pgq.replay;
begin
    perform pgq.check_isolation('a replay');
    if i_asked is null or i_since is null or i_until is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'for all events give the times -infinity and infinity';
    end if;
    perform from pgq.registration where sub_id = v_sub for key share;
    select * into p from pgq.current_position where sub_id = v_sub;
    if not found then  -- unregistered while we waited
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002';
    elsif p.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    elsif p.pos_pins is not null then
        raise exception 'the consumer %/% reads ranges of ticks, which have no retried events',
            i_queue_name, i_consumer_name using errcode = 'PQ017',
            detail = format('tick_id=%s', p.pos_last_tick),
            hint = 'such a reader can read the archive itself; name a consumer that takes batches';
    elsif p.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, p.sub_detached);
    end if;
    insert into pgq.replay as old (replay_sub, replay_asked, replay_since, replay_until)
    values (v_sub, i_asked, i_since, i_until)
    on conflict (replay_sub) do update
       set replay_asked = i_asked, replay_since = i_since, replay_until = i_until,
           replay_tick = 0, replay_group = 0, replay_events = 0, replay_begun = now(),
           replay_done = null
     where i_again or old.replay_done is not null and old.replay_asked <> i_asked;
    select * into r from pgq.replay where replay_sub = v_sub;
    return r;
end $$;
comment on function pgq.begin_replay is 'Begins a replay of archived events, or finds it.';
