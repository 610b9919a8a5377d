-- Registers the lanes of a consumer, which it locked, at one tick.
-- Parameters: i_key: the column of the key, without its ev_.
-- Raises: PQ009 a joined name is too long, or another consumer's.
-- Writes: as add_registration; update pgq.registration; insert pgq.position.
create or replace function pgq.add_lanes(
    p pgq.registration, i_lanes int, i_key text, i_tick bigint)
returns void language plpgsql as $$
declare
    c_consumer constant text := (select co_name from pgq.consumer where co_id = p.sub_consumer);
    v_name text;
    r record;
begin
    for i in 1..i_lanes loop
        v_name := concat(c_consumer, '.', i_key, '-', i, '-of-', i_lanes);
        perform pgq.check_name('consumer.lane', v_name, 255);
        r := pgq.add_registration(p.sub_queue, v_name, p.sub_id);
        if not r.is_new then
            raise exception 'the name % is taken', v_name using errcode = 'PQ009',
                hint = 'choose another name for the consumer';
        end if;
        update pgq.registration
           set sub_mode = 'lane', sub_filter = coalesce(p.sub_filter, '{}') || jsonb_build_object(
                   'lane', jsonb_build_array(i - 1, i_lanes, i_key, pgq.key_hash()))
         where sub_id = r.sub_id;
        perform pgq.move_position(r.sub_id, 0, i_tick, null, null);
    end loop;
end $$;
