-- Finds ids of events that stand twice, or will: the queue's sequence was or is behind, in a copy
-- of the database that lacks its last value. receive, finish_part and the retry queue tell events
-- apart by their ids, and would lose one of two. Delayed events count, as they keep their ids. In
-- a queue with an external ticker ids come from another database, so none is looked for.
--
-- The sequence is read after the events: whatever was inserted in between moved it up.
-- Returns: the first and the last of these ids; null: there are none.
-- Takes no xid. It reads all events.
create or replace function pgq.find_repeated_ids(
    q pgq.queue, out first_id bigint, out last_id bigint)
language plpgsql as $$
declare
    v_last bigint;
    v_sequence bigint;
begin
    if q.queue_external_ticker then
        return;
    end if;
    execute format($sql$
        select max(ev_id), min(ev_id) filter (where events > 1),
               max(ev_id) filter (where events > 1)
          from (select ev_id, count(*) as events
                  from (select ev_id from pgq.%I where ev_owner is null
                        union all
                        select ev_id from pgq.delayed_event where ev_queue = $1) known
                 group by ev_id) ids$sql$,
        pgq.event_table(q.queue_id)) into v_last, first_id, last_id using q.queue_id;
    v_sequence := pgq.seq_getval(q.queue_event_seq);
    if v_last > v_sequence then
        first_id := least(first_id, v_sequence + 1);
        last_id := greatest(last_id, v_last);
    end if;
end $$;
