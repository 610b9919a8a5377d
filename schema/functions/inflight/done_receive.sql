-- Ends the events of one claim and makes the next, in one call: see done, receive. It is the last
-- call of its transaction, which is durable. Calls before it may end or return other claims.
-- Parameters: i_token, i_ids: as in done. i_token null: nothing is ended, and it only claims.
-- Returns: as receive.
-- Raises: PQ025 the lease has ended: nothing is done; as receive.
-- Writes: as done, receive.
create or replace function pgq.done_receive(
    i_queue_name text, i_consumer_name text, i_token bigint, i_ids bigint[] default null,
    i_limit int default 1, i_lease interval default '30 seconds', i_holder int default null,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text, out attempts int, out token bigint,
    out suspect boolean)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
rows 100 as $$
declare
    c_last constant bigint := pgq.last_number();
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
begin
    perform pgq.check_claim(i_limit, i_lease);
    if pgq.end_runs(s.sub_id, i_token, i_ids) < coalesce(cardinality(i_ids), 1)
            and i_token is not null then
        raise exception 'the lease of claim % has ended', i_token using errcode = 'PQ025',
            detail = format('consumer %s/%s', i_queue_name, i_consumer_name),
            hint = 'others may handle the events: roll back, and receive';
    end if;
    return query select * from pgq.claim_events(s, i_limit, i_lease, i_holder, true, c_last);
end $$;
comment on function pgq.done_receive is 'Ends claimed events and claims the next.';
