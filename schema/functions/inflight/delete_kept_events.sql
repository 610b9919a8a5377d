-- Deletes kept events for good.
-- Parameters: i_event_ids: null: all of the consumer.
-- Returns: how many.
-- Raises: PQ002 not a subscriber.
-- Writes: delete pgq.kept_event.
create or replace function pgq.delete_kept_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[])
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_count bigint;
begin
    delete from pgq.kept_event
     where ev_owner = v_sub and (i_event_ids is null or ev_id = any (i_event_ids));
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.delete_kept_events is 'Deletes kept events for good.';
