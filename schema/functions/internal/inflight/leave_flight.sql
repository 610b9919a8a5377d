-- Ends what is in flight of a shared consumer that becomes plain: it goes on from its position.
--
-- Nothing is claimed. Events that the front sees, and the position's tick does not, would come
-- again: so those that are done are hidden, as if they were cancelled. Those that were never
-- claimed come in batches, in their place. Those that were claimed before, or are delayed, or are
-- older than the position's tick, go into the retry queue, with their time and attempts. Events in
-- pieces were never read, and come in batches. Of an event and its retried copy, both in flight,
-- one is kept.
--
-- A claim that is at work may have locked a run: this waits, and finds the run claimed. A refill
-- that waits for this finds no front.
-- Raises: PQ021 events are claimed; as read_events, range_sql.
-- Writes: advisory lock; insert pgq.retry_queue, pgq.skipped_event; delete pgq.inflight, pgq.front,
--   pgq.piece, pgq.last_run, pgq.claim_rate, pgq.holder; as sweep_runs, follow_front.
create or replace function pgq.leave_flight(
    s pgq.registration, i_queue_name text, i_consumer_name text)
returns void language plpgsql as $$
declare
    f pgq.front;
    v_start txid_snapshot;
    v_ids bigint[];
    v_places tid[];
    v_tables int[];
    v_attempts int[];
    v_due timestamptz[];
    v_kept_ids bigint[];
    v_kept_txids bigint[];
begin
    perform pg_advisory_xact_lock(pgq.lock_number('refill'), s.sub_id);
    select * into f from pgq.front where front_sub = s.sub_id order by front_no desc limit 1;
    while pgq.sweep_runs(s, f, null) loop end loop;
    perform pgq.raise_in_flight(s, i_queue_name, i_consumer_name, false);
    perform pgq.follow_front(s, f);
    select tick_snapshot into v_start
      from pgq.current_position join pgq.tick on tick_queue = sub_queue and tick_id = pos_last_tick
     where sub_id = s.sub_id;
    with gone as (
        delete from pgq.inflight where run_sub = s.sub_id and run_token <= 0 returning *)
    select array_agg(id), array_agg(place), array_agg(run_table::int), array_agg(run_attempts),
           array_agg(run_due)
      into v_ids, v_places, v_tables, v_attempts, v_due
      from gone cross join unnest(run_ids, run_places) e (id, place);
    perform pgq.raise_in_flight(s, i_queue_name, i_consumer_name, false);
    with event as materialized (
        select e.*, v_attempts[n] as attempts, v_due[n] as due,
               v_attempts[n] = 0 and v_due[n] is null and not coalesce(txid_visible_in_snapshot(
                    case when stage_txid is null then ev_txid else stage_released_by end,
                    v_start), true) as stays
          from pgq.read_events(s.sub_queue, v_ids, v_places, v_tables) e
          left join pgq.stage on stage_queue = s.sub_queue and stage_txid = ev_txid),
    retried as (
        insert into pgq.retry_queue
        select coalesce(due, now()), s.sub_queue, ev_id, ev_time, txid_current(), s.sub_id,
               pgq.add_tries(ev_retry, attempts), ev_type, ev_data, ev_extra1, ev_extra2,
               ev_extra3, ev_extra4
          from event where not stays
        on conflict (ev_owner, ev_id) do nothing)
    select array_agg(ev_id), array_agg(ev_txid) into v_kept_ids, v_kept_txids
      from event where stays;
    execute format($sql$
        insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
        select $1, own_txid, ev_id
          from (%s) e
          left join unnest($2, $3) kept (id, txid) on id = ev_id and txid = own_txid
         where id is null and not exists (
                select from pgq.piece
                 where piece_sub = $1 and piece_group = ev_id >> 10
                   and txid_visible_in_snapshot(ev_txid, piece_end)
                   and not txid_visible_in_snapshot(ev_txid, piece_start))
        on conflict do nothing$sql$,
        pgq.range_sql(s.sub_queue, v_start, f.front_snapshot, s.sub_id, null, s.sub_filter,
            ', ev_txid as own_txid'))
        using s.sub_id, v_kept_ids, v_kept_txids;
    delete from pgq.piece where piece_sub = s.sub_id;
    delete from pgq.last_run where last_sub = s.sub_id;
    delete from pgq.claim_rate where rate_sub = s.sub_id;
    delete from pgq.holder where holder_sub = s.sub_id;
    delete from pgq.front where front_sub = s.sub_id;
end $$;
