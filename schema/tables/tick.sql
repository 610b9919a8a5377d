-- Table: pgq.tick. The ticks that are kept: stored snapshots.
--
-- The ticker inserts into pgq.tick_recent, which inherits from this table. compact_ticks moves the
-- ticks worth keeping here, and maint_ticks deletes them in bulk.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.tick (
    tick_queue int not null references pgq.queue,
    tick_id bigint not null,
    tick_time timestamptz not null default now(),
    tick_snapshot txid_snapshot not null default txid_current_snapshot(),
    tick_event_seq bigint not null,
    primary key (tick_queue, tick_id)
);
comment on table pgq.tick is 'Stored snapshots: cuts in time.';
end if; end $$;
