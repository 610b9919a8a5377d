-- Reserves ids of events, for copy_chunk. Events that are inserted from now on have larger ids.
-- Returns: the ids, without those that producers took meanwhile.
-- Raises: PQ001; PQ009 a count that is not 1 to 1,000,000; PQ011 an external tick source.
-- Writes: nextval of the event sequence.
create or replace function pgq.reserve_event_ids(i_queue_name text, i_count int)
returns int8multirange language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(i_queue_name);
begin
    if i_count is null or i_count not between 1 and 1000000 then
        raise exception '% ids cannot be reserved', i_count using errcode = 'PQ009',
            hint = 'reserve 1 to 1,000,000';
    elsif q.queue_external_ticker then
        raise exception 'This queue has external tick source.' using errcode = 'PQ011',
            detail = format('queue %s', i_queue_name);
    end if;
    return (
        select range_agg(int8range(id, id + 1))
          from (select nextval(q.queue_event_seq::regclass) as id
                  from generate_series(1, i_count)) taken);
end $$;
comment on function pgq.reserve_event_ids is 'Reserves ids of events, for a copy of a table.';
