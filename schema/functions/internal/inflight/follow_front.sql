-- Moves the position of a shared consumer to the tick that its front sees, if no piece is before
-- it: so rotation, the ticks to keep and all lists know how far it is, as of any consumer. Where
-- another session holds the registration, a later call does it.
-- Writes: row lock pgq.registration; insert pgq.position.
create or replace function pgq.follow_front(s pgq.registration, f pgq.front)
returns void language plpgsql as $$
declare
    p pgq.position;
begin
    select * into p from pgq.position where pos_sub = s.sub_id order by pos_no desc limit 1;
    if p.pos_last_tick >= f.front_tick or exists (
            select from pgq.piece where piece_sub = s.sub_id) then
        return;
    end if;
    perform from pgq.registration where sub_id = s.sub_id for no key update skip locked;
    if not found then
        return;
    end if;
    select * into p from pgq.position where pos_sub = s.sub_id order by pos_no desc limit 1;
    if p.pos_last_tick < f.front_tick then
        perform pgq.move_position(s.sub_id, p.pos_no, f.front_tick, null, null);
    end if;
end $$;
