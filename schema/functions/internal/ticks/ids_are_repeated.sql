-- Whether two events that all consumers get have one id, or will have: the queue's sequence of
-- events was or is behind, in a copy of the database that lacks its last value. receive,
-- finish_part and the retry queue tell events apart by their ids, and would lose one of two.
-- Delayed events count, as they keep their ids.
--
-- The sequence is read after the events: whatever was inserted in between moved it up.
--
-- Parameters: i_event_seq: the number of an external tick: ids up to it are not lost; null: none.
-- Writes: nothing, takes no xid. It reads all events.
create or replace function pgq.ids_are_repeated(q pgq.queue, i_event_seq bigint default null)
returns boolean language plpgsql as $$
declare
    v_last bigint;
    v_repeated boolean;
begin
    execute format($sql$
        select max(ev_id), bool_or(events > 1)
          from (select ev_id, count(*) as events
                  from (
                        select ev_id from pgq.%I where ev_owner is null
                        union all
                        select ev_id from pgq.delayed_event where ev_queue = $1) known
                 group by ev_id) ids$sql$,
        pgq.event_table(q.queue_id)) into v_last, v_repeated using q.queue_id;
    return coalesce(v_repeated, false)
        or coalesce(v_last > greatest(i_event_seq, pgq.seq_getval(q.queue_event_seq)), false);
end $$;
