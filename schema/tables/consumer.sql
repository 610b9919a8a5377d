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
-- sub_parent: of a subconsumer of pgq_coop, its consumer. The subconsumer's position is a range
-- that it works on, or nothing; the consumer's position is the end of what was handed out. Retried
-- and dead events belong to the consumer. A session that locks both locks the consumer first.
--
-- sub_mode: plain, or shared: see pgq.inflight; null: not decided yet, or a subconsumer. next_batch
-- leaves it null; open_batch sets plain for a process that handles the batch. sub_key: what orders
-- the events of a shared one; null: nothing. Of a key, at most sub_per_key runs are claimed at
-- once; of all, at most sub_limit events at once, and sub_rate events a second; null: as many as
-- are asked for. sub_filter: which events the subscription takes, see check_filter; null: all. That
-- of a consumer holds for its subconsumers.
-- sub_dropped, sub_dropped_above: retried copies that it does not take: see seek_consumer.
-- sub_detached: since when rotation does not wait for it and its subconsumers. Nobody then reads or
-- finishes its batches: see lock_batch. sub_stalls and the like: see set_stall_policy.
create table pgq.registration (
    sub_id serial primary key,
    sub_queue int not null references pgq.queue,
    sub_consumer int not null references pgq.consumer,
    sub_parent int references pgq.registration,
    sub_mode text check (sub_mode in ('plain', 'shared')),
    -- the setting order_key; in Python, key
    sub_key text check (sub_key in ('type', 'extra1', 'extra2', 'extra3', 'extra4')),
    sub_per_key int not null default 1 check (sub_per_key >= 1),
    sub_limit int check (sub_limit >= 1),  -- the setting limit_in_flight
    sub_rate double precision check (sub_rate > 0),
    sub_filter jsonb,
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
-- pos_last_tick is null only for a subconsumer without a range. A range moves between subscriptions
-- inside one transaction, so the minimum of pos_last_tick says how far a queue was consumed.
-- pos_pins are ticks that a subscription needs which reads ranges of ticks: pin_range and
-- advance_subscription write them, every other move drops them. They are not null, if only empty,
-- while it reads by ticks.
-- pos_batch repeats in every row of a batch, so its index also has pos_no, to find the newest row.
-- pos_from is the id up to which the open batch is finished. Ids are the order of a batch, and a
-- restore and repair_queue keep them.
-- pos_active is the time of the last call, pos_moved that of the last progress.
-- pos_attempts: how many processes of a plain consumer began to handle what is first in the open
-- batch, and have not released it; null: nobody counts them. See open_batch.
--
-- Not every call is a move: open_batch updates pos_active, pos_moved and pos_attempts in place,
-- pgq_coop.next_batch_custom pos_active, release_batch pos_attempts, and repair_queue pos_batch.
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
    pos_moved timestamptz not null default clock_timestamp(),
    pos_attempts int,
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
       r.sub_detached,
       p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch, p.pos_active, p.pos_pins,
       p.pos_from, p.pos_moved, p.pos_attempts
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
