-- Table: pgq.position. The log of each subscription's positions; the newest row is the current one.
--
-- PGQ keeps a consumer's position in one row that it updates twice a batch. While a transaction
-- holds xmin back, the dead versions cannot be removed, and each read of the row walks over all of
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
--
-- pos_holder names the run of the consumer that works from this position, as host:pid:random; null:
-- none, or a client that makes PGQ's own calls. It outlives the batch, so that a run writes it
-- once. A run that finds the token of another one beside an open batch knows that the process died.
-- pos_part and pos_tries say what follows from that: the events of a part, and how often the
-- process died while it handled only the first open event. Null: whole batches. pos_died, of
-- workers only, are the runs whose ends pos_tries counts; empty: none yet, though a run died with
-- this range. A run that shows up again had only lost its session: see uncount_end. A run whose
-- session is there sent no heartbeat, but has not died: see count_ended.
--
-- pos_last_tick is null only for a subconsumer without a range, and for a consumer with lanes. So
-- the minimum of pos_last_tick says how far a queue was consumed: a range moves between
-- subscriptions inside one transaction.
-- pos_until is the end of the holder's lease, if it has one: see holder_is_dead. touch_batch and
-- resume_part update pos_active and pos_until in place: a heartbeat is no move, and finish_part
-- compares pos_no. Only five more columns are updated in place: pos_holder (where it was null) and
-- pos_moved by resume_part, pos_died and pos_tries by uncount_end, and pos_batch by repair_queue.
-- pos_moved is the time of the last progress: the range was opened, or a part of it finished.
-- Heartbeats, new runs and takeovers leave it: see last_progress.
--
-- A large range may be cut into parts of ids for several workers: see cut_range. pos_to is the last
-- id of a worker's part; null: the range's end. pos_cuts are the last ids of the parts that are not
-- handed out yet, but for the last part, which has none; pos_from is where they begin. Meanwhile
-- the consumer stays at the range's first tick, and pos_next_tick is its last.
--
-- pos_ids are the ids of what receive leased of the range, ascending; null: the whole range.
-- finish_events takes ids out of it. In a batch of take_parked, they are all of its events, in
-- their order. pos_leases says how many leases ended that had all of them,
-- since a worker last finished the first one. Whoever takes a range over, a worker or a receiver,
-- keeps all of these counts: see count_end.
do $$ begin if not exists (select from pgq.installation) then
create sequence pgq.batch_id_seq maxvalue 8796093022207;  -- see new_batch_id
create table pgq.position (
    pos_sub int not null,
    pos_no bigint not null,
    pos_last_tick bigint,
    pos_next_tick bigint,
    pos_batch bigint,
    pos_active timestamptz not null default now(),
    pos_pins bigint[],
    pos_from bigint,
    pos_done bigint[],
    pos_holder text,
    pos_part int,
    pos_tries int,
    pos_leases int,
    pos_until timestamptz,
    pos_to bigint,
    pos_cuts bigint[],
    pos_died text[],
    pos_ids bigint[],
    pos_moved timestamptz not null default clock_timestamp(),
    primary key (pos_sub, pos_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create unique index position_batch_idx on pgq.position (pos_batch, pos_no)
    where pos_batch is not null;
comment on table pgq.position is 'The log of positions: the highest pos_no is current.';
end if; end $$;
