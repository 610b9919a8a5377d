-- View: pgq.subscription. The current position of every subscription, in PGQ's columns (pgq-contract 1.1). It names the
-- columns it takes: with * it would not be the same once the table gets another one.
create or replace view pgq.subscription as
select r.sub_id,
       r.sub_queue,
       r.sub_consumer,
       p.pos_last_tick as sub_last_tick,
       p.pos_active as sub_active,
       p.pos_batch as sub_batch,
       p.pos_next_tick as sub_next_tick
  from pgq.registration r
 cross join lateral (
        select pos_last_tick, pos_next_tick, pos_batch, pos_active
          from pgq.position
         where pos_sub = r.sub_id
         order by pos_no desc
         limit 1) p;
comment on view pgq.subscription is 'The current position of every subscription.';
