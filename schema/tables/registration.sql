-- Table: pgq.registration. The subscriptions: which consumer reads which queue.
--
-- A session that moves a subscription's position locks the row in this table, because positions are
-- only appended, so no position row stands for the subscription: see move_position. PGQ's table
-- pgq.subscription is a view here.
--
-- A subconsumer is the registration of one worker of a shared consumer, its sub_parent. Its
-- position is a range that it works on, or nothing. The parent's position is the end of what was
-- handed out. Retried and dead events belong to the parent. A session that locks both locks the
-- parent first, then the subconsumers by sub_id.
--
-- sub_mode says how a consumer runs, plain (next_batch), shared (take_part), or with lanes
-- (take_lane); null until the first run, and for subconsumers. A lane, mode lane, is a part of the
-- consumer's events with a position of its own: the consumer has none then. sub_stop_tick is the
-- tick where a lane ends that set_lanes replaces.
--
-- sub_filter says which events the subscription takes, see check_filter; null: all of them. That of
-- a shared consumer holds for its workers. That of a lane is its consumer's, with the condition
-- lane: see lane_sql.
--
-- sub_dropped are snapshots. The subscription does not take its retried copies in the event tables
-- that one of them sees, if their ids are above the element of sub_dropped_above with the same
-- index: see seek_consumer.
--
-- sub_detached is the time when maint_stalled detached the consumer, also of its workers and lanes.
-- Rotation does not wait for it then, so nobody reads or finishes its batches: see lock_batch.
-- sub_stalls, sub_stall_after and sub_stall_bytes say when: see set_stall_policy.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.registration (
    sub_id serial primary key,
    sub_queue int not null references pgq.queue,
    sub_consumer int not null references pgq.consumer,
    sub_parent int references pgq.registration,
    sub_mode text check (sub_mode in ('plain', 'shared', 'lanes', 'lane')),
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
end if; end $$;
