-- Deletes the heads of parked keys for good. What was parked behind a head is due now. It waits for
-- a transaction that handles events of the consumer. Heads of an open batch are left out: a handler
-- may have them just now. A failed event behind a head stays, though it has a time when it is due.
-- Parameters: i_keys: the heads of these keys.
-- Returns: the ids of the deleted events.
-- Raises: PQ002 not a subscriber; PQ013 not READ COMMITTED.
-- Writes: row lock pgq.registration; as remove_parked.
create or replace function pgq.delete_parked(
    i_queue_name text, i_consumer_name text, i_keys text[])
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_taken bigint[];
    v_ids bigint[];
begin
    perform pgq.check_isolation('delete_parked');
    perform from pgq.registration where sub_id = v_sub for no key update;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for no key update;
    v_taken := array(
        select unnest(pos_ids) from pgq.current_position where v_sub in (sub_id, sub_parent));
    v_ids := array(
        select ev_id from pgq.parked h
         where ev_owner = v_sub and park_key = any (i_keys) and park_after is not null
           and ev_id <> all (v_taken) and not exists (
                select from pgq.parked
                 where ev_owner = v_sub and park_key = h.park_key and park_no < h.park_no)
         order by ev_id);
    perform pgq.remove_parked(v_sub, null, v_ids);
    return query select unnest(v_ids);
end $$;
comment on function pgq.delete_parked is 'Deletes the heads of parked keys; returns their ids.';
