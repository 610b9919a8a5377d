-- Removes the lanes that set_lanes ends, once all of them have reached their stop tick: the new
-- lanes may begin then. The caller holds no lock of a lane yet, as the consumer is locked first.
-- Returns: true; false: one is not there yet.
-- Writes: row locks pgq.registration, pgq.consumer; as remove_registration.
create or replace function pgq.end_lanes(i_parent int)
returns boolean language plpgsql as $$
declare
    r pgq.registration;
begin
    perform from pgq.registration where sub_id = i_parent for no key update;
    perform from pgq.registration
      where sub_parent = i_parent and sub_stop_tick is not null order by sub_id for update;
    if exists (
            select from pgq.current_position
             where sub_parent = i_parent
               and (pos_last_tick < sub_stop_tick or sub_stop_tick is not null and pos_batch > 0))
    then
        return false;
    end if;
    perform from pgq.registration s join pgq.consumer c on c.co_id = s.sub_consumer
      where s.sub_parent = i_parent and s.sub_stop_tick is not null
      order by s.sub_id for update of c;
    for r in
        select * from pgq.registration
         where sub_parent = i_parent and sub_stop_tick is not null order by sub_id desc
    loop
        perform pgq.remove_registration(r);
    end loop;
    return true;
end $$;
