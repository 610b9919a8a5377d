-- Repairs what is in flight, for repair_queue: it goes on where it was, and nothing that is done
-- comes again.
--
-- The events have new places. A shared consumer looks again from its position on, because the front
-- is a snapshot with old ids. So what the front had seen since that position, and is not in a
-- piece, is hidden from it, as if it were cancelled. Claims are returned: no process of the old
-- cluster has them.
-- Parameters: i_ticks, i_snapshots: the ticks that are kept, with their old snapshots.
--   pg_temp.pgq_repair: the events before.
-- Writes: update pgq.inflight; insert pgq.skipped_event, pgq.front; delete pgq.piece, pgq.holder.
create or replace function pgq.repair_flight(
    i_queue_id int, i_ticks bigint[], i_snapshots txid_snapshot[])
returns void language plpgsql as $$
begin
    execute format($sql$
        update pgq.inflight i set run_table = 0, run_places = moved.places
          from (select run_sub, run_token, run_no, array_agg(place order by n) as places
                  from (select distinct on (run_sub, run_token, run_no, n)
                               run_sub, run_token, run_no, n, e.ctid as place
                          from pgq.registration
                          join pgq.inflight on run_sub = sub_id
                         cross join unnest(run_ids) with ordinality x (id, n)
                          join pgq.%I e on ev_id = id and (ev_owner is null or ev_owner = run_sub)
                         where sub_queue = $1
                         order by run_sub, run_token, run_no, n, ev_owner) x
                 group by run_sub, run_token, run_no) moved
         where i.run_sub = moved.run_sub and i.run_token = moved.run_token
           and i.run_no = moved.run_no
           and cardinality(i.run_ids) = cardinality(moved.places)$sql$,
        pgq.event_table(i_queue_id, 0)) using i_queue_id;
    update pgq.inflight
       set run_token = -3, run_no = nextval('pgq.run_no_seq'), run_due = null, run_holder = null,
           run_took = null
      from pgq.registration where run_sub = sub_id and sub_queue = i_queue_id and run_token > 0;
    delete from pgq.holder using pgq.registration
     where holder_sub = sub_id and sub_queue = i_queue_id;
    insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
    select sub_id, 3 + 2 * unseen + (ev_owner is not null)::int, ev_id
      from pgq.current_position p
     cross join lateral (
            select * from pgq.front where front_sub = sub_id order by front_no desc limit 1) f
      join pg_temp.pgq_repair on ev_id <= front_seq and (ev_owner is null or ev_owner = sub_id)
     where p.sub_queue = i_queue_id and txid_visible_in_snapshot(ev_txid, front_snapshot)
       and not txid_visible_in_snapshot(
            ev_txid, i_snapshots[array_position(i_ticks, pos_last_tick)])
       and not exists (
            select from pgq.piece
             where piece_sub = sub_id and piece_group = ev_id >> 10
               and txid_visible_in_snapshot(ev_txid, piece_end)
               and not txid_visible_in_snapshot(ev_txid, piece_start))
    on conflict do nothing;
    delete from pgq.piece using pgq.registration
     where piece_sub = sub_id and sub_queue = i_queue_id;
    insert into pgq.front (front_sub, front_no, front_snapshot, front_seq, front_tick)
    select sub_id, (select max(front_no) + 1 from pgq.front where front_sub = sub_id),
           tick_snapshot, tick_event_seq, tick_id
      from pgq.current_position
      join pgq.tick on tick_queue = sub_queue and tick_id = pos_last_tick
     where sub_queue = i_queue_id and sub_mode = 'shared';
end $$;
