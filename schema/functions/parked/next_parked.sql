-- How long until take_parked has an event for a consumer; zero or less: now. Null: none is parked.
-- It is a search in an index, so a consumer may ask at every batch. A failed event behind a head
-- has a time too, and waits for the head all the same.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.next_parked(i_queue_name text, i_consumer_name text)
returns interval language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    return (select park_after from pgq.parked h
             where ev_owner = v_sub and park_after is not null and not exists (
                    select from pgq.parked
                     where ev_owner = v_sub and park_key = h.park_key and park_no < h.park_no)
             order by park_after limit 1) - clock_timestamp();
end $$;
comment on function pgq.next_parked is 'How long until the next parked event is due.';
