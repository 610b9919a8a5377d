-- Makes claimable what is due: runs whose delay is over, and those of claims that ended, because
-- their lease is over or their process is dead. A claim calls this that found nothing, and about
-- once a second one that did.
--
-- A process is dead when its session lock is free. That says nothing after a restart of the server,
-- which frees all locks while handlers run, nor behind a pooler: then the lease counts.
--
-- Of the events of a claim that never ended, one may have killed the process. Most processes die of
-- something else, so the first time that changes nothing: suspects keep handlers idle. The second
-- time they are suspects: a tenth of them at most are claimed together, and in the end each alone.
-- An event is dead when three claims that had it alone never ended. All that a process had in hand
-- is one claim.
--
-- Of a key, only the first run is claimable, or those that get a slot. What has no lease because
-- its process has no row any more is returned too, every five seconds.
--
-- It also moves the consumer's position to the tick that the front sees.
-- Parameters: i_last: as last_number returned it, before the transaction had an id.
-- Returns: whether there is more to claim.
-- Writes: advisory locks; update pgq.inflight; insert pgq.front, pgq.position, pgq.dead_event;
--   delete pgq.holder, pgq.last_run; as end_runs, fill_slots.
create or replace function pgq.sweep_runs(s pgq.registration, f pgq.front, i_last bigint)
returns boolean language plpgsql as $$
declare
    c_now constant timestamptz := clock_timestamp();
    c_all constant boolean := f.front_looked < c_now - interval '5 seconds';
    v_ended int[];  -- holders
    v_in_hand int[];  -- their events
    v_count int := 0;
    r pgq.inflight;
    v_took int;
    v_promoted boolean := false;
    v_keys bigint[];  -- what waits for a slot
begin
    if not exists (
            select from pgq.inflight
             where run_sub = s.sub_id and run_due <= c_now and run_due > f.front_due)
            and not exists (
            select from pgq.holder where holder_sub = s.sub_id and pgq.holder_is_gone(holder))
            and f.front_swept > c_now - interval '1 second'
            or not pg_try_advisory_xact_lock(pgq.lock_number('refill'), s.sub_id) then
        return false;
    end if;
    select * into f from pgq.front where front_sub = s.sub_id order by front_no desc limit 1;
    if not found then
        return false;  -- it is plain now: see leave_flight
    end if;
    -- Which holders are gone, and how many events each had in hand.
    select array_agg(holder_id), array_agg(events) into v_ended, v_in_hand
      from pgq.holder
     cross join lateral (
            select coalesce(sum(cardinality(run_ids)), 0)::int as events from pgq.inflight
             where run_sub = s.sub_id and run_token > 0 and run_holder = holder_id) i
     where holder_sub = s.sub_id and pgq.holder_is_gone(holder);
    -- Runs that are due, and claimed ones whose holder is gone: to make claimable, or dead.
    for r in
        select * from pgq.inflight
         where ctid = any (array(
                select ctid from (
                    select ctid from pgq.inflight
                     where run_sub = s.sub_id and run_due <= c_now and run_due > f.front_due
                     order by run_due limit 1000) due
                union all
                select ctid from pgq.inflight
                 where (v_ended is not null or c_all) and run_sub = s.sub_id and run_token > 0
                   and run_due is null and (run_holder = any (v_ended) or not exists (
                        select from pgq.holder where holder_id = run_holder))))
           and (run_due <= c_now or run_token > 0 and run_due is null)
         order by run_ord for update skip locked
    loop
        v_took := case when r.run_token > 0
            then coalesce(v_in_hand[array_position(v_ended, r.run_holder)], r.run_took) end;
        if v_took = 1 and r.run_crashes >= 2 then
            perform pgq.bury_events(
                s, r.run_token, r.run_ids, 'three claims of it alone ended without done');
        else
            update pgq.inflight
               set run_token = case
                       when r.run_slot is not null then -3
                       when s.sub_per_key > 1 and r.run_key is not null and r.run_token = -1 then -2
                       when exists (
                            select from pgq.inflight e
                             where e.run_sub = s.sub_id and e.run_key = r.run_key
                               and e.run_ord < r.run_ord) then -2
                       else -3 end,
                   run_no = nextval('pgq.run_no_seq'), run_due = null,
                   run_holder = null, run_took = null,
                   run_part = case when v_took = 1
                           or v_took > 1 and (r.run_part is not null or r.run_crashes < 0)
                       then greatest(1, v_took / 10) end,
                   run_crashes = case when v_took = 1 then greatest(run_crashes, 0) + 1
                       when v_took > 1 and r.run_part is null and r.run_crashes = 0 then -1
                       else 0 end
             where run_sub = s.sub_id and run_token = r.run_token and run_no = r.run_no;
        end if;
        v_count := v_count + 1;
        v_keys := case when s.sub_per_key > 1 then v_keys || r.run_key end;
    end loop;
    if v_keys is not null then
        perform pgq.fill_slots(s, v_keys);
    end if;
    -- Holders that are gone go, once none of their runs is claimed.
    delete from pgq.holder
     where holder_id = any (v_ended) and not exists (
            select from pgq.inflight
             where run_sub = s.sub_id and run_token > 0 and run_holder = holder_id);
    -- The marks of the front: see pgq.front.
    f.front_no := f.front_no + 1;
    f.front_swept := c_now;
    if c_all then
        v_promoted := pgq.sweep_keys(s);
        f.front_looked := c_now;
        f.front_due := '-infinity';
    elsif v_count < 1000 then
        f.front_due := c_now - interval '3 seconds';  -- for transactions that commit late
    end if;
    if f.front_next_xid <= txid_snapshot_xmin(txid_current_snapshot()) and i_last is not null then
        f.front_back := least(f.front_next_back, (
            select run_no from pgq.inflight
             where run_sub = s.sub_id and run_token = -3 and run_no >= f.front_back
             order by run_no limit 1));
        f.front_next_back := i_last;
        f.front_next_xid := txid_current();
    end if;
    perform pgq.move_front(f);
    perform pgq.follow_front(s, f);
    return v_count > 0 or v_promoted;
end $$;
