-- View: pgq.current_position. The newest position of each subscription: the one place of the engine
-- that looks for it. pgq.subscription shows it in PGQ's columns.
--
-- The two views are made once, as tables are. Replacing them on each installation would lock the
-- inner view before the outer one, and a query of the outer view locks them in the other order.
do $$ begin if not exists (select from pgq.installation) then
create view pgq.current_position as
select r.sub_id, r.sub_queue, r.sub_consumer, r.sub_parent, r.sub_mode, r.sub_filter,
       r.sub_stop_tick, r.sub_detached,
       p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch, p.pos_active, p.pos_pins,
       p.pos_from, p.pos_done, p.pos_holder, p.pos_part, p.pos_tries, p.pos_leases,
       p.pos_until, p.pos_to, p.pos_cuts, p.pos_died, p.pos_ids, p.pos_moved
  from pgq.registration r
 cross join lateral (
        select * from pgq.position where pos_sub = r.sub_id order by pos_no desc limit 1) p;
comment on view pgq.current_position is 'The newest position of every subscription.';
end if; end $$;
