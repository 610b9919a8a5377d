-- An open batch: the owner of its events, its queue and its two ticks. A batch is open while its
-- newest row is the newest of its subscription. pos_no counts up by one, so one index probe tells.
--
-- The two ticks are looked up one by one, which LIMIT ensures. As plain joins, planned without
-- statistics, they took the index by tick_queue alone and walked over all ticks of the queue, dead
-- ones too.
-- Returns: one row; no row when the batch is not open (never was, finished, taken away), or its
--   consumer is detached. queue_version: another text after each change of the queue's row. filter:
--   the sub_filter of the owner.
-- Raises, writes: as check_snapshot.
create or replace function pgq.find_batch(
    x_batch_id bigint, out owner int, out pos_no bigint, out queue_id int, out queue_name text,
    out consumer_name text, out start_tick bigint, out end_tick bigint,
    out start_snapshot txid_snapshot, out end_snapshot txid_snapshot, out start_time timestamptz,
    out end_time timestamptz, out start_seq bigint, out end_seq bigint, out pos_from bigint,
    out queue_version text, out filter jsonb)
returns setof record language plpgsql as $$
#variable_conflict use_column
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.check_snapshot();
    end if;
    return query
    select coalesce(r.sub_parent, r.sub_id), p.pos_no, q.queue_id, q.queue_name, c.co_name,
           s.tick_id, e.tick_id, s.tick_snapshot, e.tick_snapshot,
           s.tick_time, e.tick_time, s.tick_event_seq, e.tick_event_seq,
           p.pos_from, q.xmin::text,
           case when r.sub_parent is null then r.sub_filter
               else (select sub_filter from pgq.registration where sub_id = r.sub_parent) end
      from (select * from pgq.position
             where pos_batch = x_batch_id order by pos_no desc limit 1) p
      join pgq.registration r on r.sub_id = p.pos_sub
      join pgq.queue q on q.queue_id = r.sub_queue
      join pgq.consumer c on c.co_id = r.sub_consumer
     cross join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id and tick_id = p.pos_last_tick limit 1) s
     cross join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id and tick_id = p.pos_next_tick limit 1) e
     where r.sub_detached is null and not exists (
            select from pgq.position n where n.pos_sub = p.pos_sub and n.pos_no = p.pos_no + 1);
end $$;
