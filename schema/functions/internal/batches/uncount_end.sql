-- Takes back that the end of a run was counted against events: it lives, and had only lost its
-- session. The counts are updated in place, because this is no move: the worker that has the range
-- by now goes on. A row that another session holds is left, and not waited for: it is finished or
-- taken over just now, or by a stopped process.
-- Parameters: i_parent: the consumer. i_holder: the token of the run.
-- Returns: true; false: a row was left, so call again.
-- Writes: update pgq.position, where the run is counted.
create or replace function pgq.uncount_end(i_parent int, i_holder text)
returns boolean language plpgsql as $$
declare
    c record;
    v_all boolean := true;
begin
    for c in
        select sub_id, pos_no from pgq.current_position
         where sub_parent = i_parent and i_holder = any (pos_died)
    loop
        perform from pgq.position
          where pos_sub = c.sub_id and pos_no = c.pos_no for no key update skip locked;
        if found then
            update pgq.position
               set pos_died = array_remove(pos_died, i_holder), pos_tries = nullif(pos_tries - 1, 0)
             where pos_sub = c.sub_id and pos_no = c.pos_no and i_holder = any (pos_died);
        else
            v_all := false;
        end if;
    end loop;
    return v_all;
end $$;
