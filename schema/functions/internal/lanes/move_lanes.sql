-- Moves all lanes of a consumer to a tick. The caller has locked the consumer and its lanes. Old
-- lanes that set_lanes replaces are removed: the new ones have their events. From one tick on, no
-- key is in two lanes, so the hash may be that of another server.
-- Writes: as remove_registration; update pgq.registration; insert pgq.position.
create or replace function pgq.move_lanes(i_parent int, i_tick bigint)
returns void language plpgsql as $$
declare
    r pgq.registration;
begin
    for r in select * from pgq.registration where sub_parent = i_parent order by sub_id loop
        if r.sub_stop_tick is null then
            perform pgq.move_position(r.sub_id, pos_no, i_tick, null, null)
               from pgq.current_position where sub_id = r.sub_id;
        else
            perform from pgq.consumer where co_id = r.sub_consumer for update;
            perform pgq.remove_registration(r);
        end if;
    end loop;
    update pgq.registration
       set sub_filter = jsonb_set(sub_filter, '{lane,3}', to_jsonb(pgq.key_hash()))
     where sub_parent = i_parent;
end $$;
