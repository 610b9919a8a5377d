-- Claims events of a shared consumer: nobody else gets them until they are returned, or their lease
-- ends. Commit before you handle them: else a process that dies takes its claim with it, and what
-- killed it is never counted.
-- Parameters: i_limit: 1 to 10,000. i_lease: a second to a day. i_holder: the caller's, from hold:
--   then its lease counts. i_alone: the transaction has no other call; then its commit does not
--   wait for the disk. A crash of the server may lose the claim, never an event.
-- Returns: the events, those of a key in their order, how often each was claimed, and the token of
--   the claim; no rows: there are none to claim. suspect: one of the events may have killed a
--   process; a receiver ends the other events that it has before it handles these.
-- Raises: PQ002 not a subscriber; PQ009 a bad limit or lease; PQ012 the queue needs a repair; PQ013
--   not READ COMMITTED; PQ020 not shared; PQ024 detached; PQ025 the holder's lease has ended; 42501
--   as range_sql.
-- Writes: as claim_events.
create or replace function pgq.receive(
    i_queue_name text, i_consumer_name text, i_limit int default 1,
    i_lease interval default '30 seconds', i_holder int default null,
    i_alone boolean default false,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text, out attempts int, out token bigint,
    out suspect boolean)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
rows 100 as $$
declare
    c_last constant bigint := pgq.last_number();
begin
    perform pgq.check_claim(i_limit, i_lease);
    if i_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    return query
    select * from pgq.claim_events(
        pgq.find_shared(i_queue_name, i_consumer_name), i_limit, i_lease, i_holder, i_alone,
        c_last);
end $$;
comment on function pgq.receive is 'Claims events of a shared consumer.';
