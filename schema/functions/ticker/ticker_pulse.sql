-- A text that changes when a queue with an id from i_first to i_last gets an event, comes or goes.
-- Queues in i_excluded do not count. A ticker that gets the same text again need not call
-- ticker_activity, which takes twice as long. The text holds a 64-bit hash.
-- Writes: shared advisory locks, see ticker_activity; takes no xid.
create or replace function pgq.ticker_pulse(i_first int, i_last int, i_excluded int[])
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select count(*) || ' ' || coalesce(bit_xor(hashint8extended(
                case when pg_try_advisory_xact_lock_shared(pgq.lock_number('queue'), queue_id)
                    then coalesce(pg_sequence_last_value(to_regclass(queue_event_seq)), 0)
                    else -1 end, queue_id)), 0)
          from pgq.queue
         where queue_id between i_first and i_last and queue_id <> all (i_excluded)
           and not queue_external_ticker and not queue_ticker_paused);
end $$;
comment on function pgq.ticker_pulse is 'A text that changes with new events.';
