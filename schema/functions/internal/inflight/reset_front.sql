-- Lets a shared consumer begin at a tick: its front is there, and nothing is in flight any more.
-- Claims are lost: their handlers roll back. A transaction that has called done is waited for.
-- Writes: advisory lock; delete pgq.inflight, pgq.piece, pgq.last_run; insert pgq.front.
create or replace function pgq.reset_front(i_queue_id int, i_sub int, i_tick bigint)
returns void language plpgsql as $$
begin
    perform pg_advisory_xact_lock(pgq.lock_number('refill'), i_sub);
    delete from pgq.inflight where run_sub = i_sub;
    delete from pgq.inflight where run_sub = i_sub;  -- what a claim split off, that was waited for
    delete from pgq.piece where piece_sub = i_sub;
    delete from pgq.last_run where last_sub = i_sub;
    insert into pgq.front (front_sub, front_no, front_snapshot, front_seq, front_tick)
    select i_sub, 1 + coalesce((select max(front_no) from pgq.front where front_sub = i_sub), 0),
           tick_snapshot, tick_event_seq, tick_id
      from pgq.tick where tick_queue = i_queue_id and tick_id = i_tick;
end $$;
