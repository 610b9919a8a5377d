-- Which of some keys are parked for the consumer that has a batch. Its later events of these keys
-- are to be parked too, without being handled: see event_park. Of a batch of take_parked, whose
-- keys are all parked: the keys of which an event has been parked again.
-- Returns: the keys, each once; none if the batch is not known.
-- Raises: 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.get_parked_keys(x_batch_id bigint, x_keys text[])
returns setof text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p record;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.check_snapshot();
    end if;
    select coalesce(r.sub_parent, r.sub_id) as owner, b.pos_ids,
           b.pos_last_tick = b.pos_next_tick as is_parked into p
      from (select * from pgq.position where pos_batch = x_batch_id limit 1) b
      join pgq.registration r on r.sub_id = b.pos_sub;
    if p.is_parked then
        return query
        select distinct e.park_key from unnest(p.pos_ids) id
         cross join lateral (
                select * from pgq.parked where ev_owner = p.owner and ev_id = id offset 0) e
         where e.park_batch = x_batch_id and e.park_key = any (x_keys);
    else
        return query
        select distinct key from unnest(x_keys) key
         where exists (select from pgq.parked where ev_owner = p.owner and park_key = key);
    end if;
end $$;
comment on function pgq.get_parked_keys is 'Which of some keys are parked.';
