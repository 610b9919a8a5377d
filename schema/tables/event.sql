do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.event_template. The parent of all event tables; it holds no rows.
create table pgq.event_template (
    ev_id bigint not null,
    ev_time timestamptz not null default now(),
    ev_txid bigint not null default txid_current(),
    ev_owner int,  -- a sub_id: only this subscription sees the event; null: all do
    ev_retry int,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);
comment on table pgq.event_template is 'Parent of every event table; holds no rows.';

-- Table: pgq.retry_queue. Events delivered again to the subscription ev_owner after ev_retry_after.
--
-- ev_txid is the transaction that inserted the row: maint_retry_events finds by it the rows that
-- are new since its last poll.
create table pgq.retry_queue (
    ev_retry_after timestamptz not null,
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_owner, ev_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
alter table pgq.retry_queue alter ev_txid drop not null, alter ev_txid set default txid_current();
create index retry_queue_after_idx on pgq.retry_queue (ev_retry_after);
create index retry_queue_txid_idx on pgq.retry_queue (ev_txid);
comment on table pgq.retry_queue is 'Retried events, until their time has come.';

-- Table: pgq.delayed_event. Events that are not yet in their queue: move_delayed_events inserts
-- them when they are due.
--
-- ev_time is the time of the insert, ev_txid its transaction: move_delayed_events finds by it the
-- rows that are new since its last poll. Of the indexes by time, the first tells what is due next,
-- the second finds the events of one queue, however many others are due.
create table pgq.delayed_event (
    ev_deliver_at timestamptz not null,
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_queue, ev_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index delayed_event_at_idx on pgq.delayed_event (ev_deliver_at);
create index delayed_event_queue_idx on pgq.delayed_event (ev_queue, ev_deliver_at);
create index delayed_event_txid_idx on pgq.delayed_event (ev_txid);
comment on table pgq.delayed_event is 'Events that wait for their time.';

-- Table: pgq.dead_event. Events that the subscription ev_owner gave up on, and why.
create table pgq.dead_event (
    dead_time timestamptz not null default now(),
    dead_error text,  -- the class of the exception; null: there was none
    dead_reason text not null,  -- the exception's text, or what the consumer said
    dead_traceback text,
    dead_tries int not null,  -- how often a handler had the event
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_owner, ev_id)
);
comment on table pgq.dead_event is 'Events that a consumer gave up on, and why.';

-- Table: pgq.kept_event. Events that finish_event kept for the subscription ev_owner.
create table pgq.kept_event (
    kept_at timestamptz not null default clock_timestamp(),
    ev_queue int not null,
    like pgq.event_template,
    primary key (ev_owner, ev_id)
);
comment on table pgq.kept_event is 'Events that were done, and are kept.';

-- Table: pgq.dedup_key. The keys under which insert_event_once inserted events, until when each one
-- is taken, and the event's id.
--
-- It does not rotate, as event tables do: while two tables are in use, nothing keeps a key from
-- being in both. A lookup names the whole key, so it meets only that key's dead rows, whatever
-- transactions hold xmin back. Collation "C", because a new version of the system's library may
-- order text in another way, and a unique index that is out of order lets a key in twice.
create table pgq.dedup_key (
    dedup_queue int not null,
    dedup_key text collate "C" not null,
    dedup_until timestamptz not null,  -- free from then on, whether the row is there or not
    dedup_ev_id bigint not null,
    primary key (dedup_queue, dedup_key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index dedup_key_event_idx on pgq.dedup_key (dedup_ev_id);
create index dedup_key_until_idx on pgq.dedup_key (dedup_until);
comment on table pgq.dedup_key is 'Keys of insert_event_once that are taken.';

-- Table: pgq.skipped_event. Events that cancel_event or skip_event hides from the subscription
-- skip_sub, and events that a shared consumer had done when leave_flight or repair_flight moved it.
--
-- A row names one row of an event table by its own ev_txid and ev_id: an event, also one of a
-- stage, or a retried copy. The transactions of a batch are a range, so a batch finds its rows by
-- one index probe, and hides the same events however ticks are merged. maint_skipped_events deletes
-- at the low end of the transactions, where no batch looks (G6).
--
-- Rows with the queue's negative id as skip_sub are for consumers that register later. A row with
-- skip_txid 0 hides nothing from batches, only from a replay: its event was not there at a repair.
create table pgq.skipped_event (
    skip_sub int not null,
    skip_txid bigint not null,
    skip_id bigint not null,
    primary key (skip_sub, skip_txid, skip_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
comment on table pgq.skipped_event is 'Events that a subscription does not get: cancelled or done.';

-- Table: pgq.replay. The last replay of archived events for a subscription, and its position in the
-- archive: see begin_replay, replay_events.
create table pgq.replay (
    replay_sub int primary key,
    replay_asked text not null,  -- the caller's description, which identifies it
    replay_since timestamptz not null,
    replay_until timestamptz not null,
    replay_tick bigint not null default 0,  -- the end of the file that was read last
    replay_group bigint not null default 0,  -- how many of its row groups were read
    replay_events bigint not null default 0,  -- inserted until now
    replay_begun timestamptz not null default now(),
    replay_done timestamptz
) with (fillfactor = 50);  -- room to update a row within its page
comment on table pgq.replay is 'How far archived events were inserted again for a consumer.';

-- Table: pgq.cron. The cron entries: which event to insert into which queue, at which times.
--
-- cron_next is the next due time, which a ticker daemon has planned: the server cannot read
-- schedules. So each time was agreed on before it came: if daemons computed the times anew at each
-- poll, two of them with different time zone data would fire twice. Null: a daemon is to plan the
-- first time after cron_planned. If that is later than now, the clock has been stepped back.
--
-- No index has a column that changes: an update stays in its page, and leaves nothing for vacuum.
create table pgq.cron (
    cron_name text collate "C" primary key,
    cron_queue int not null references pgq.queue,
    cron_schedule text not null,
    cron_timezone text not null,
    cron_missed text not null check (cron_missed in ('one', 'all', 'skip')),
    cron_version uuid not null default gen_random_uuid(),  -- another one after each change
    cron_next timestamptz,
    cron_planned timestamptz not null default clock_timestamp(),
    cron_last_due timestamptz,  -- the time of the last event; null: there was none
    cron_paused timestamptz,  -- since when; null: not paused
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgq.cron is 'Events that the ticker inserts by the clock: see add_cron.';

end if; end $$;
