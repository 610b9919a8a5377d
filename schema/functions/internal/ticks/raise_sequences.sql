-- Moves the sequences of a queue, and those that all queues share, up to the numbers that are in
-- use, never back: for a copy of the database that lacks their values.
-- Parameters: last: the queue's last tick. i_last_id: the largest id of its events; null: none.
-- Writes: as seq_setval; setval.
create or replace function pgq.raise_sequences(q pgq.queue, last pgq.tick, i_last_id bigint)
returns void language plpgsql as $$
begin
    perform pgq.seq_setval(q.queue_tick_seq, last.tick_id),
            pgq.seq_setval(q.queue_event_seq, greatest(last.tick_event_seq, i_last_id, 0, (
                select max(dedup_ev_id) from pgq.dedup_key where dedup_queue = q.queue_id), (
                select max(ev_id) from pgq.delayed_event where ev_queue = q.queue_id)));
    perform setval(used.sequence, used.number)
       from (select 'pgq.queue_queue_id_seq'::regclass, max(queue_id) from pgq.queue union all
             select 'pgq.consumer_co_id_seq', max(co_id) from pgq.consumer union all
             select 'pgq.registration_sub_id_seq', max(sub_id) from pgq.registration union all
             select 'pgq.batch_id_seq', max(pos_batch) >> 20 from pgq.position
            ) used (sequence, number)
      where used.number > coalesce(pg_sequence_last_value(used.sequence), 0);
end $$;
