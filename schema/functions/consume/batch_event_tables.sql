-- The tables that may hold a batch's events: all of the queue's rotating tables.
-- Returns: qualified, quoted names, in the order of rotation.
-- Raises: PQ003 Cannot find data for batch; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.batch_event_tables(x_batch_id bigint)
returns setof text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select format('pgq.%I', pgq.event_table(q.queue_id, n))
      from pgq.find_batch(x_batch_id) b
      join pgq.queue q on q.queue_id = b.queue_id
     cross join generate_series(0, q.queue_ntables - 1) n
     order by n;
    if not found then
        raise exception 'Cannot find data for batch %', x_batch_id using errcode = 'PQ003';
    end if;
end $$;
comment on function pgq.batch_event_tables is 'The tables that hold a batch''s events.';
