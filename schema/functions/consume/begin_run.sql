-- Tells that a run of a consumer has begun. A run is one process at work, over any number of
-- sessions. A consumer calls this in each session, and commits, before it handles an event.
--
-- Next_batch gives an open batch again after a lost connection or a restart of the server. So what
-- counts is not the delivery but the holder: the run that wrote its token here and neither goes on
-- nor called end_run has died. If it had a batch open, an event may have killed it: a crash, see
-- narrow_part.
-- Parameters: i_holder: the token of the run, at most 255 octets: host:pid:random.
-- Returns: part_size: handle so many events at a time, and finish them by finish_part; null: whole
--   batches. tries: how often a run died while it handled only the first open event; null: never.
--   died: the token of the run that died; null: none.
-- Raises: PQ002 not a subscriber; PQ009 a bad token; PQ013, PQ020 as lock_subscription.
-- Writes: as lock_subscription; insert pgq.position, unless the token is the same; update
--   pgq.registration at the first run: the consumer is plain from then on.
create or replace function pgq.begin_run(
    i_queue_name text, i_consumer_name text, i_holder text,
    out part_size int, out tries int, out died text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position;
begin
    perform pgq.check_name('holder', i_holder, 255);
    p := pgq.lock_subscription(i_queue_name, i_consumer_name);
    update pgq.registration set sub_mode = 'plain'
     where sub_id = p.pos_sub and sub_mode is null and sub_parent is null;
    part_size := p.pos_part;
    tries := p.pos_tries;
    if p.pos_holder = i_holder then
        return;
    elsif p.pos_holder is not null and p.pos_batch is not null then
        died := p.pos_holder;
        select n.part_size, n.tries into part_size, tries
          from pgq.narrow_part(p.pos_part, p.pos_tries) n;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        nullif(p.pos_pins, '{}'), p.pos_from, p.pos_done, i_holder, part_size, tries,
        x_until => p.pos_until, x_to => p.pos_to, x_died => p.pos_died, x_ids => p.pos_ids,
        x_moved => pgq.last_progress(p.pos_moved, p.pos_active));
end $$;
comment on function pgq.begin_run is 'Tells that a run of a consumer has begun.';
