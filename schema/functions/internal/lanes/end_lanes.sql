-- Removes the lanes that set_lanes ends, once all of them have reached their stop tick: the new
-- lanes may begin then. A lock that another session holds is not waited for: see take_lane.
-- Returns: true; false: one is not there yet, or locked.
-- Writes: row locks pgq.registration, pgq.consumer; as remove_registration.
create or replace function pgq.end_lanes(i_parent int)
returns boolean language plpgsql as $$
declare
    r pgq.registration;
    v_locked bigint;
begin
    perform from pgq.registration where sub_id = i_parent for no key update skip locked;
    if not found then
        return false;
    end if;
    perform from pgq.registration
      where sub_parent = i_parent and sub_stop_tick is not null
      order by sub_id for update skip locked;
    get diagnostics v_locked = row_count;
    if v_locked < (select count(*) from pgq.registration
                    where sub_parent = i_parent and sub_stop_tick is not null) or exists (
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
         where sub_parent = i_parent and sub_stop_tick is not null order by sub_id
    loop
        perform pgq.remove_registration(r);
    end loop;
    return true;
end $$;
