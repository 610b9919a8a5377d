-- Deletes a registration with its position, its retried, dead, kept and cancelled events, and
-- the consumer's name if no other subscription uses it. The caller holds the registration, and then
-- the name, before it calls: the name against a register_consumer on another queue.
-- Writes: delete pgq.registration, pgq.position, pgq.retry_queue, pgq.dead_event,
--   pgq.kept_event, pgq.skipped_event, pgq.replay, pgq.consumer, and what is in flight.
create or replace function pgq.remove_registration(r pgq.registration)
returns void language plpgsql as $$
begin
    delete from pgq.retry_queue where ev_owner = r.sub_id;
    delete from pgq.dead_event where ev_owner = r.sub_id;
    delete from pgq.kept_event where ev_owner = r.sub_id;
    delete from pgq.skipped_event where skip_sub = r.sub_id;
    delete from pgq.replay where replay_sub = r.sub_id;
    -- a refill that is at work would leave its rows
    perform pg_advisory_xact_lock(pgq.lock_number('refill'), r.sub_id)
      where r.sub_mode = 'shared';
    delete from pgq.front where front_sub = r.sub_id;
    delete from pgq.piece where piece_sub = r.sub_id;
    delete from pgq.inflight where run_sub = r.sub_id;
    delete from pgq.last_run where last_sub = r.sub_id;
    delete from pgq.claim_rate where rate_sub = r.sub_id;
    delete from pgq.holder where holder_sub = r.sub_id;
    delete from pgq.position where pos_sub = r.sub_id;
    delete from pgq.registration where sub_id = r.sub_id;
    delete from pgq.consumer
     where co_id = r.sub_consumer and not exists (select from pgq.registration
         where sub_consumer = r.sub_consumer);
end $$;
