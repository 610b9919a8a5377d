-- View: pgq.subscription. The current position of each subscription, in PGQ's columns.
do $$ begin if not exists (select from pgq.installation) then
create view pgq.subscription as
select sub_id,
       sub_queue,
       sub_consumer,
       pos_last_tick as sub_last_tick,
       pos_active as sub_active,
       pos_batch as sub_batch,
       pos_next_tick as sub_next_tick
  from pgq.current_position;
comment on view pgq.subscription is 'The current position of every subscription.';
end if; end $$;
