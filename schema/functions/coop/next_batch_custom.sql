-- Opens a subconsumer's next batch, or returns the one that it has open. It registers what is
-- missing. The batch is one that a silent subconsumer left, or the next one of the consumer, whose
-- position moves on. A batch that is taken over gets a new id, so that the subconsumer that lost it
-- cannot finish it (G5). PGQ's function removes silent subconsumers; this one leaves those alone
-- that have no batch, because they may live.
--
-- Each call locks the consumer, so subconsumers take turns. The silent one is skipped while a
-- session holds it: it may finish its batch just now.
-- Parameters: i_dead_interval: take over the batch of a subconsumer that was silent for so long;
--   null: never. The others as in pgq.next_batch_custom.
-- Returns: the batch id; null when there is nothing.
-- Raises: PQ013 not READ COMMITTED; PQ020 the consumer is shared; PQ021 it has a batch open itself;
--   as open_batch, register_subconsumer.
-- Writes: row lock pgq.registration; insert or update pgq.position; as open_batch,
--   register_subconsumer.
create or replace function pgq_coop.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_min_lag interval,
    i_min_count int, i_min_interval interval, i_dead_interval interval default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub int;
    v_batch bigint;
    p pgq.current_position;  -- the consumer's
    w pgq.current_position;  -- the subconsumer's
    d pgq.current_position;  -- a silent one's
    b record;
begin
    perform pgq.check_isolation('opening a batch');
    perform pgq_coop.register_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
    v_sub := pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
    p.sub_id := (select sub_parent from pgq.registration where sub_id = v_sub);
    perform from pgq.registration where sub_id = p.sub_id for no key update;
    perform from pgq.registration where sub_id = v_sub for no key update;
    select * into p from pgq.current_position where sub_id = p.sub_id;
    select * into w from pgq.current_position where sub_id = v_sub;
    if w.sub_id is null then
        raise exception 'Not subscriber to queue: %/%.%', i_queue_name, i_consumer_name,
            i_subconsumer_name using errcode = 'PQ002';  -- unregistered while we waited
    elsif w.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, w.sub_detached);
    elsif w.pos_batch is not null then
        update pgq.position set pos_active = clock_timestamp()
         where pos_sub = w.sub_id and pos_no = w.pos_no;
        return w.pos_batch;
    elsif p.pos_batch is not null then
        raise exception 'main consumer has batch open?' using errcode = 'PQ021',
            detail = format('consumer %s/%s, batch %s', i_queue_name, i_consumer_name, p.pos_batch),
            hint = 'finish it; then only subconsumers open batches';
    end if;
    v_batch := pgq.new_batch_id();
    for d in
        select * from pgq.current_position
         where sub_parent = p.sub_id and pos_batch is not null
           and greatest(clock_timestamp() - pos_active, pos_active - clock_timestamp())
               > i_dead_interval  -- the clock may have been stepped back
         order by sub_id
    loop
        perform from pgq.registration where sub_id = d.sub_id for no key update skip locked;
        if found and exists (
                select from pgq.current_position where sub_id = d.sub_id and pos_no = d.pos_no) then
            perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);
            perform pgq.move_position(w.sub_id, w.pos_no, d.pos_last_tick, d.pos_next_tick, v_batch,
                x_from => d.pos_from);
            return v_batch;
        end if;
    end loop;
    b := pgq.open_batch(i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval,
        i_counts => false);
    if b.batch_id is null then
        return null;
    end if;
    perform pgq.move_position(p.sub_id, b."position", b.cur_tick_id, null, null);
    perform pgq.move_position(
        w.sub_id, w.pos_no, b.prev_tick_id, b.cur_tick_id, v_batch);
    return v_batch;
end $$;
comment on function pgq_coop.next_batch_custom
    is 'Opens a subconsumer''s next batch, with limits.';
