-- Writes the token of a run to the position of an idle subconsumer, once a session. So
-- take_part looks once a session whether the run was counted as dead: see uncount_end.
-- Writes: row lock pgq.registration; insert pgq.position, unless another session holds the row.
create or replace function pgq.show_holder(i_worker int, i_holder text)
returns void language plpgsql as $$
begin
    perform from pgq.registration where sub_id = i_worker for no key update skip locked;
    if found then
        perform pgq.move_position(
                sub_id, pos_no, null, null, null, x_holder => i_holder, x_part => pos_part)
          from pgq.current_position where sub_id = i_worker and pos_batch is null;
    end if;
end $$;
