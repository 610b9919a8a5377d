-- Locks an idle subconsumer for a worker's lease, named consumer.lease-N, or registers one under
-- the lowest free number. So there are as many as leases were there at the same time.
--
-- The caller holds the consumer's lock, and all other workers wait for it. So an idle
-- subconsumer that another session locks is skipped, and only a name that is not registered is
-- added: add_registration would wait for the lock of one that is.
-- Parameters: i_parent: the consumer, locked by the caller.
-- Returns: its position.
-- Raises: PQ022 all 1,000 have a range; PQ009 the joined name is too long, or another consumer's.
-- Writes: row lock pgq.registration; as add_registration; insert pgq.position.
create or replace function pgq.lease_slot(i_parent int)
returns pgq.current_position language plpgsql as $$
declare
    s pgq.current_position;
    r record;
    v_queue int;
    v_prefix text;
    v_names text[] := '{}';  -- that are registered
    v_name text;
begin
    select sub_queue, co_name || '.lease-' into v_queue, v_prefix
      from pgq.registration join pgq.consumer on co_id = sub_consumer where sub_id = i_parent;
    for r in
        select p.sub_id, c.co_name
          from pgq.current_position p join pgq.consumer c on c.co_id = p.sub_consumer
         where p.sub_parent = i_parent and starts_with(c.co_name, v_prefix)
         order by p.sub_id
    loop
        v_names := v_names || r.co_name;
        if (select pos_batch from pgq.current_position where sub_id = r.sub_id) is null then
            perform from pgq.registration where sub_id = r.sub_id for no key update skip locked;
            if found then
                select * into s from pgq.current_position where sub_id = r.sub_id;
                if found and s.pos_batch is null then
                    return s;
                end if;
            end if;
        end if;
    end loop;
    if cardinality(v_names) >= 1000 then
        raise exception '1000 leases of the consumer are open' using errcode = 'PQ022',
            detail = format('the last one is %s', v_names[cardinality(v_names)]),
            hint = 'finish what was taken, or wait until leases end';
    end if;
    v_name := v_prefix || (
        select min(n) from generate_series(1, cardinality(v_names) + 1) n
         where v_prefix || n <> all (v_names));
    perform pgq.check_name('consumer.subconsumer', v_name, 255);
    r := pgq.add_registration(v_queue, v_name, i_parent);
    if not r.is_new then
        raise exception 'the name % is taken', v_name using errcode = 'PQ009',
            hint = 'choose another name for the consumer';
    end if;
    perform pgq.move_position(r.sub_id, 0, null, null, null);
    select * into s from pgq.current_position where sub_id = r.sub_id;
    return s;
end $$;
