do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.consumer. The names of consumers.
create table pgq.consumer (
    co_id serial primary key,
    co_name text not null unique
);
comment on table pgq.consumer is 'Names of consumers; one consumer may subscribe to many queues.';

-- Table: pgq.registration. The subscriptions: which consumer reads which queue.
--
-- Positions are only appended, so no position row stands for the subscription: a session that moves
-- it locks the row here. PGQ's table pgq.subscription is a view.
--
-- A subconsumer is the registration of one worker of a shared consumer, its sub_parent. Its
-- position is a range that it works on, or nothing. The parent's position is the end of what was
-- handed out. Retried and dead events belong to the parent. A session that locks both locks the
-- parent first, then the subconsumers by sub_id.
--
-- sub_mode: plain (next_batch), shared (take_part), or lanes (take_lane); null until the first run,
-- and for subconsumers. A lane, mode lane, is a part of the consumer's events with a position of
-- its own: the consumer has none then. sub_stop_tick: where a lane ends that set_lanes replaces.
-- inflight: many share it, see pgq.inflight; sub_key: what orders its events; null: nothing.
-- sub_filter: which events the subscription takes, see check_filter; null: all. That of a shared
-- consumer holds for its workers. That of a lane has the condition lane too: see lane_sql.
-- sub_dropped, sub_dropped_above: retried copies that it does not take: see seek_consumer.
-- sub_detached: since when rotation does not wait for it, its workers and lanes. Nobody then
-- reads or finishes its batches: see lock_batch. sub_stalls and the like: see set_stall_policy.
create table pgq.registration (
    sub_id serial primary key,
    sub_queue int not null references pgq.queue,
    sub_consumer int not null references pgq.consumer,
    sub_parent int references pgq.registration,
    sub_mode text check (sub_mode in ('plain', 'shared', 'lanes', 'lane', 'inflight')),
    sub_key text check (sub_key in ('type', 'extra1', 'extra2', 'extra3', 'extra4')),
    sub_filter jsonb,
    sub_stop_tick bigint,
    sub_dropped txid_snapshot[],
    sub_dropped_above bigint[],
    sub_detached timestamptz,
    sub_stalls text not null default 'warn' check (sub_stalls in ('warn', 'detach')),
    sub_stall_after interval check (sub_stall_after between '0' and '100 years'),
    sub_stall_bytes bigint check (sub_stall_bytes >= 0),
    unique (sub_queue, sub_consumer)
);
create index registration_parent_idx on pgq.registration (sub_parent, sub_id)
    where sub_parent is not null;
comment on table pgq.registration is 'Which consumer reads which queue.';

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
-- pos_last_tick is null only for a subconsumer without a range, and for a consumer with lanes. A
-- range moves between subscriptions inside one transaction, so the minimum of pos_last_tick says
-- how far a queue was consumed.
-- pos_pins are ticks that a subscription needs which reads ranges of ticks: pin_range and
-- advance_subscription write them, every other move drops them. They are not null, if only empty,
-- while it reads by ticks.
-- pos_batch repeats in every row of a batch, so its index also has pos_no, to find the newest row.
-- pos_from is the id up to which the open batch is finished, pos_done lists the ids beyond it that
-- are finished too. Ids are the order of a batch, and a restore and repair_queue keep them.
-- pos_holder is the run that works from this position, as host:pid:random; null: none, or a client
-- of PGQ's own calls. It outlives the batch, so that a run writes it once. A run that finds another
-- token beside an open batch knows that the process died. pos_part and pos_tries say what follows:
-- the events of a part, and how often the process died while it handled only the first open event.
-- pos_died, of workers only, are the runs whose ends pos_tries counts: see count_ended.
-- pos_until is the end of the holder's lease: see holder_is_dead.
-- pos_moved is the time of the last progress: see last_progress.
-- pos_to and pos_cuts divide a large range into parts of ids: see cut_range. pos_to is the last id
-- of a worker's part. pos_cuts are the last ids of the parts that are not handed out yet, without
-- the last part; meanwhile the consumer stays at the range's first tick.
-- pos_ids are all events of a batch of take_parked, in their order; null: the whole range.
--
-- A heartbeat is no move: touch_batch and resume_part update pos_active, pos_until, pos_holder and
-- pos_moved in place, uncount_end pos_died and pos_tries, and repair_queue pos_batch.
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

-- View: pgq.current_position. The newest position of each subscription: the one place of the engine
-- that looks for it. pgq.subscription shows it in PGQ's columns.
--
-- The two views are made once, as tables are. Replacing them on each installation would lock the
-- inner view before the outer one, and a query of the outer view locks them in the other order.
create view pgq.current_position as
select r.sub_id, r.sub_queue, r.sub_consumer, r.sub_parent, r.sub_mode, r.sub_filter,
       r.sub_stop_tick, r.sub_detached,
       p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch, p.pos_active, p.pos_pins,
       p.pos_from, p.pos_done, p.pos_holder, p.pos_part, p.pos_tries,
       p.pos_until, p.pos_to, p.pos_cuts, p.pos_died, p.pos_ids, p.pos_moved
  from pgq.registration r
 cross join lateral (
        select * from pgq.position where pos_sub = r.sub_id order by pos_no desc limit 1) p;
comment on view pgq.current_position is 'The newest position of every subscription.';

-- View: pgq.subscription. The current position of each subscription, in PGQ's columns.
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
