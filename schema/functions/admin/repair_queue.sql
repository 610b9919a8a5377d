-- Makes a queue usable that was restored into a cluster with smaller transaction ids (PQ012). Every
-- consumer goes on where it was, and gets each event exactly once, also events that were inserted
-- since the restore.
--
-- Transaction ids decide which batch an event is in. So the old ids are replaced by small ones that
-- keep every decision. Let K be the ticks that a subscription refers to (used_ticks), and the last
-- tick, in their order. Tick number j gets the snapshot that sees every id below 3 + 2j. An event
-- that n of these ticks do not see gets the txid 3 + 2n, a retried copy gets 4 + 2n: else a row of
-- pgq.skipped_event would hide both. (PostgreSQL itself uses the ids below 3.) An event with an id
-- beyond the last tick's was inserted since, and no tick sees it. All other ticks are deleted. The
-- events are inserted again into the first table, so that no dead row stays.
--
-- Sequences that are behind are moved up. Events that were inserted into such a copy before may
-- have ids of older events, or look as if they had been delivered: they stay as they are, and
-- warnings name the ranges of their ids.
--
-- An open batch gets a new id: a session that built its query before the repair, and runs it after,
-- finds no event, and cannot finish the batch (G5). Readers of tick ranges have no batch: stop them
-- before a repair.
--
-- Retried copies that seek_consumer dropped, and cancelled ones, are deleted: another copy may get
-- their txid. So are events of stages that wait: a later commit_stage raises PQ018. Beyond the last
-- tick, ev_time tells events of a stage from events that were inserted since.
-- Returns: the number of events kept.
-- Raises: PQ001; PQ013 not READ COMMITTED; PQ012 more ticks are in use than this cluster has used
--   up xids, or as raise_no_tick; 55P03 as lock_queue.
-- Writes: as lock_queue, count_truncation, seq_setval, mark_checked; setval; update pgq.queue;
--   truncate and insert on the event tables; update and delete pgq.tick; delete pgq.stage; update
--   pgq.position, pgq.skipped_event, pgq.registration, pgq.delayed_event,
--   pgq.retry_queue; as repair_flight.
create or replace function pgq.repair_queue(i_queue_name text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_ticks bigint[];
    v_snapshots txid_snapshot[];
    v_last pgq.tick;
    v_sequence bigint;
    v_kept bigint;
    ids record;
    unsure record;
begin
    perform pgq.check_isolation('a repair');
    q := pgq.lock_queue(i_queue_name, i_mark => true);
    perform pgq.count_truncation();

    select * into v_last
      from pgq.tick where tick_queue = q.queue_id order by tick_id desc limit 1;
    if not found then
        perform pgq.raise_no_tick(i_queue_name);
    end if;
    select array_agg(t.tick_id order by t.tick_id), array_agg(t.tick_snapshot order by t.tick_id)
      into v_ticks, v_snapshots
      from pgq.tick t
     where t.tick_queue = q.queue_id and t.tick_id >= q.queue_low_tick  -- not of detached ones
       and (t.tick_id in (select u.tick_id from pgq.used_ticks() u where u.queue_id = q.queue_id)
            or t.tick_id = v_last.tick_id);
    if 4 + 2 * cardinality(v_ticks) >= txid_snapshot_xmin(txid_current_snapshot()) then
        raise exception '% ticks are in use, this cluster has used up only % transaction ids',
            cardinality(v_ticks), txid_snapshot_xmin(txid_current_snapshot())
            using errcode = 'PQ012',
            hint = 'use up some: call select txid_current() a few hundred times, each in its own '
                'transaction; then repair again';
    end if;

    execute format($sql$
        create temporary table pgq_repair on commit drop as
        select e.*, case when e.ev_id > $3 then cardinality($1) else (
                   select count(*) from unnest($1) t
                    where not txid_visible_in_snapshot(coalesce(s.stage_released_by, e.ev_txid), t))
                    end as unseen
          from pgq.%1$I e
          left join pgq.stage s
            on s.stage_queue = $2 and s.stage_txid = e.ev_txid and e.ev_owner is null
           and (e.ev_id <= $3 or e.ev_time = s.stage_time)
          left join pgq.registration r on r.sub_id = e.ev_owner
         where (s.stage_txid is null or s.stage_released_by > 0)
           and not exists (
                select from unnest(r.sub_dropped, r.sub_dropped_above) d (dropped, above)
                 where e.ev_id > above and txid_visible_in_snapshot(e.ev_txid, dropped))
           and not exists (
                select from pgq.skipped_event
                 where skip_sub = e.ev_owner and skip_txid = e.ev_txid
                   and skip_id = e.ev_id)$sql$,
        pgq.event_table(q.queue_id))
        using v_snapshots, q.queue_id, v_last.tick_event_seq;
    v_sequence := pgq.seq_getval(q.queue_event_seq);  -- before it moves up
    perform pgq.seq_setval(q.queue_tick_seq, v_last.tick_id),
            pgq.seq_setval(q.queue_event_seq, greatest(v_last.tick_event_seq, 0, (
                select max(ev_id) from pg_temp.pgq_repair), (
                select max(dedup_ev_id) from pgq.dedup_key where dedup_queue = q.queue_id), (
                select max(ev_id) from pgq.delayed_event where ev_queue = q.queue_id)));
    perform setval(used.sequence, used.number)
       from (select 'pgq.queue_queue_id_seq'::regclass, max(queue_id) from pgq.queue union all
             select 'pgq.consumer_co_id_seq', max(co_id) from pgq.consumer union all
             select 'pgq.registration_sub_id_seq', max(sub_id) from pgq.registration union all
             select 'pgq.holder_holder_id_seq', max(holder_id) from pgq.holder union all
             select 'pgq.run_no_seq', max(greatest(run_no, run_token >> 16)) from pgq.inflight
             union all
             select 'pgq.batch_id_seq', max(pos_batch) >> 20 from pgq.position
            ) used (sequence, number)
      where used.number > coalesce(pg_sequence_last_value(used.sequence), 0);
    ids := pgq.find_repeated_ids(q);
    if ids.first_id is not null then
        raise warning 'queue %: events with ids from % to % may be there twice', q.queue_name,
            ids.first_id, ids.last_id using detail = 'They were inserted into this copy of the '
                'database while its sequence of events was behind. Consumers may not get them.';
    end if;
    if v_sequence < v_last.tick_event_seq and not q.queue_external_ticker then
        select min(ev_id) as first_id, max(ev_id) as last_id into unsure
          from pg_temp.pgq_repair
         where ev_owner is null and ev_id <= v_sequence and unseen < cardinality(v_ticks)
           and (ev_id between ids.first_id and ids.last_id) is not true;  -- told already
        if unsure.first_id is not null then
            raise warning 'queue %: events with ids from % to % may not come to every consumer',
                q.queue_name, unsure.first_id, unsure.last_id
                using detail = 'The sequence of events was behind. Events that were inserted into '
                    'this copy of the database under these ids look as if they were delivered.';
        end if;
    end if;
    -- As new rows: a poll for what is due reads them once, and not each time.
    update pgq.delayed_event set ev_txid = txid_current()
     where ev_queue = q.queue_id and ev_txid > txid_current();
    update pgq.retry_queue set ev_txid = txid_current()
     where ev_queue = q.queue_id and ev_txid > txid_current();
    execute format('truncate pgq.%I', pgq.event_table(q.queue_id));
    execute format($sql$
        insert into pgq.%I
        select ev_id, ev_time, 3 + 2 * unseen + (ev_owner is not null)::int, ev_owner, ev_retry,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from (select * from pg_temp.pgq_repair order by ev_id) e$sql$,
        pgq.event_table(q.queue_id, 0));
    get diagnostics v_kept = row_count;
    with old as (
        delete from pgq.skipped_event
         where skip_sub = -q.queue_id or skip_sub in (
                select sub_id from pgq.registration where sub_queue = q.queue_id)
        returning *)
    insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
    select distinct o.skip_sub, coalesce(kept.txid, 0), o.skip_id
      from old o
      left join (select ev_txid, ev_id, 3 + 2 * unseen from pg_temp.pgq_repair
                  where ev_owner is null) kept (old, id, txid)
        on kept.old = o.skip_txid and kept.id = o.skip_id;
    update pgq.position p
       set pos_batch = pgq.new_batch_id()
      from pgq.current_position c
     where c.sub_queue = q.queue_id and c.pos_batch is not null
       and p.pos_sub = c.sub_id and p.pos_no = c.pos_no;
    -- All of them: a session with an older snapshot fails when it locks one, and finishes no batch
    -- by its old id.
    update pgq.registration set sub_dropped = null, sub_dropped_above = null
     where sub_queue = q.queue_id;
    delete from pgq.stage where stage_queue = q.queue_id;
    delete from pgq.tick where tick_queue = q.queue_id and tick_id <> all (v_ticks);
    update pgq.tick t set tick_snapshot = concat(3 + 2 * k.j, ':', 3 + 2 * k.j, ':')::txid_snapshot
      from unnest(v_ticks) with ordinality k (id, j)
     where t.tick_queue = q.queue_id and t.tick_id = k.id;
    perform pgq.repair_flight(q.queue_id, v_ticks, v_snapshots);
    drop table pg_temp.pgq_repair;
    update pgq.queue
       set queue_cur_table = 0, queue_low_tick = v_ticks[1], queue_switch_tick = v_ticks[1],
           queue_switch_time = now(), queue_switch_step1 = txid_current(),
           queue_switch_step2 = txid_current(), queue_system_id = pgq.system_identifier()
     where queue_id = q.queue_id;
    perform pgq.mark_checked(q.queue_id, 1);
    return v_kept;
end $$;
comment on function pgq.repair_queue is 'Makes a queue usable after a restore with smaller xids.';
