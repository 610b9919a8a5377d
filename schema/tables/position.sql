-- Table: pgq.position. The log of each subscription's positions; the newest row is the current one.
--
-- PGQ keeps a consumer's position in one row that it updates twice a batch. While a transaction
-- holds xmin back, the dead versions cannot be removed, and each look at the row walks over all of
-- them: 1,605 cycles a second fall to 265 within 20,000 cycles. So the positions are an append-only
-- log, read newest first: the current one is the first hit of a backward index scan.
-- maint_positions deletes at the other end, where no lookup goes (G6).
--
-- pos_no counts up by one within a subscription and is unique. So of two sessions that start from
-- the same position only one can move it, whatever their isolation level and locks (G3, G5).
--
-- pos_pins are ticks that the subscription needs beside its position. A reader of tick ranges
-- (get_tick_events) pins the next range before it reads that range, and moves its position when it
-- will not read the range before again. Without pins, compact_ticks would remove the ticks in
-- between. pin_range and advance_subscription write them; every other move drops them.
--
-- pos_from is the id up to which the open batch is finished: what is open begins after it. pos_done
-- lists the ids beyond it that are finished too. finish_part writes both. Ids mark what is
-- finished, because they are the order of a batch, and because a dump, a restore and repair_queue
-- do not change them. pos_batch repeats in every row of a batch, so its index also has pos_no, to
-- find the newest row first.
do $$ begin if not exists (select from pgq.installation) then
create sequence pgq.batch_id_seq;
create table pgq.position (
    pos_sub int not null,
    pos_no bigint not null,
    pos_last_tick bigint not null,
    pos_next_tick bigint,
    pos_batch bigint,
    pos_active timestamptz not null default now(),
    pos_pins bigint[],
    pos_from bigint,
    pos_done bigint[],
    primary key (pos_sub, pos_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create unique index position_batch_idx on pgq.position (pos_batch, pos_no)
    where pos_batch is not null;
comment on table pgq.position
    is 'The log of positions: a subscription''s row with the highest pos_no is its current one.';
end if; end $$;
