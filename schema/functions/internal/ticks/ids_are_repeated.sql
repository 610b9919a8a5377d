-- Whether two events that all consumers get have one id, or will have: the queue's sequence of
-- events was or is behind, in a copy of the database that lacks its last value. receive,
-- finish_part and the retry queue tell events apart by their ids, and would lose one of two.
-- Delayed events count, as they keep their ids.
--
-- The sequence is read after the events: whatever was inserted in between moved it up.
--
-- Events of the caller's own transaction may have larger ids: a program that writes them into the
-- tables of a queue with an external ticker ticks after that, and the tick moves the sequence up.
--
-- Writes: nothing, takes no xid. It reads all events.
create or replace function pgq.ids_are_repeated(q pgq.queue)
returns boolean language plpgsql as $$
declare
    v_own constant bigint := pg_current_xact_id_if_assigned()::text::bigint;
    v_last bigint;
    v_repeated boolean;
begin
    execute format($sql$
        select max(ev_id) filter (where not is_own), bool_or(events > 1)
          from (select ev_id, count(*) as events, bool_and(is_own) as is_own
                  from (
                        select ev_id, ev_txid is not distinct from $2 as is_own
                          from pgq.%I where ev_owner is null
                        union all
                        select ev_id, false from pgq.delayed_event where ev_queue = $1) known
                 group by ev_id) ids$sql$,
        pgq.event_table(q.queue_id)) into v_last, v_repeated using q.queue_id, v_own;
    return coalesce(v_repeated, false)
        or coalesce(v_last > pgq.seq_getval(q.queue_event_seq), false);
end $$;
