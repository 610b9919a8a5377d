-- Locks an idle subconsumer of receive, named consumer.receive-N, or registers the next one. So
-- there are as many as leases and left over ranges were there at the same time.
-- Parameters: i_parent: the consumer, locked by the caller.
-- Returns: its position.
-- Raises: PQ022 all 1,000 have a range; PQ009 the joined name is too long, or another consumer's.
-- Writes: row lock pgq.registration; as add_registration; insert pgq.position.
create or replace function pgq.lease_slot(i_parent int)
returns pgq.current_position language plpgsql set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
declare
    s pgq.current_position;
    r record;
    v_queue int;
    v_prefix text;
    v_sub int;
    v_count int := 0;
begin
    select sub_queue, co_name || '.receive-' into v_queue, v_prefix
      from pgq.registration join pgq.consumer on co_id = sub_consumer where sub_id = i_parent;
    for v_sub in
        select p.sub_id
          from pgq.current_position p join pgq.consumer c on c.co_id = p.sub_consumer
         where p.sub_parent = i_parent and starts_with(c.co_name, v_prefix)
         order by p.sub_id
    loop
        v_count := v_count + 1;
        if (select pos_batch from pgq.current_position where sub_id = v_sub) is null then
            perform from pgq.registration where sub_id = v_sub for no key update skip locked;
            if found then
                select * into s from pgq.current_position where sub_id = v_sub;
                if found and s.pos_batch is null then
                    return s;
                end if;
            end if;
        end if;
    end loop;
    if v_count >= 1000 then
        raise exception '1000 leases of the consumer are open' using errcode = 'PQ022',
            detail = format('the last one is %s%s', v_prefix, v_count),
            hint = 'finish what was received, or wait until leases end';
    end if;
    loop
        v_count := v_count + 1;
        perform pgq.check_name('consumer.subconsumer', v_prefix || v_count, 255);
        r := pgq.add_registration(v_queue, v_prefix || v_count, i_parent);
        exit when r.is_new;
        if r.sub_parent is distinct from i_parent then
            raise exception 'the name % is taken', v_prefix || v_count using errcode = 'PQ009',
                hint = 'choose another name for the consumer';
        end if;
    end loop;
    perform pgq.move_position(r.sub_id, 0, null, null, null);
    select * into s from pgq.current_position where sub_id = r.sub_id;
    return s;
end $$;
