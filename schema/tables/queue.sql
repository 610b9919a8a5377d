do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.queue. One row for each queue: its settings and the state of its rotation. The columns
-- up to queue_extra_maint are PGQ's.
create table pgq.queue (
    queue_id serial primary key,
    queue_name text not null unique,
    queue_ntables int not null default 3,
    queue_cur_table int not null default 0,
    queue_rotation_period interval not null default '2 hours',
    -- the transaction of the last rotation
    queue_switch_step1 bigint not null default txid_current(),
    queue_switch_step2 bigint default txid_current(),  -- null: no rotation until step 2
    queue_switch_time timestamptz not null default now(),
    queue_external_ticker boolean not null default false,
    queue_disable_insert boolean not null default false,
    queue_ticker_paused boolean not null default false,
    queue_ticker_max_count int not null default 500,
    queue_ticker_max_lag interval not null default '3 seconds',
    queue_ticker_idle_period interval not null default '1 minute',
    queue_per_tx_limit int,
    -- computed: neither a role nor a mistake can make them name another queue's tables
    queue_data_pfx text not null
        generated always as ('pgq.event_' || queue_id::text) stored,
    queue_event_seq text not null
        generated always as ('pgq.event_' || queue_id::text || '_id_seq') stored,
    queue_tick_seq text not null
        generated always as ('pgq.event_' || queue_id::text || '_tick_seq') stored,
    queue_extra_maint text[],
    queue_switch_tick bigint not null default 0,  -- the last tick at the last rotation
    queue_low_tick bigint not null default 0,  -- after this tick, no event was truncated
    -- the cluster whose transaction ids ticks and events hold; null where the server hides it
    queue_system_id bigint,
    queue_created timestamptz not null default now(),
    queue_former_names text[] not null default '{}',  -- see raise_if_renamed
    queue_retention interval,  -- events stay for at least so long, whoever has read them
    -- The tables share the retention evenly. Else two small ones and a giant would take turns.
    queue_rotates_after interval not null generated always as (
        greatest(queue_rotation_period, queue_retention / (queue_ntables - 1))) stored,
    constraint ntables check (queue_ntables between 2 and 64),
    -- An infinite or larger interval overflows timestamps, here and in clients that list queues.
    constraint rotation_period check (queue_rotation_period between '0' and '100 years'),
    constraint ticker_max_count check (queue_ticker_max_count > 0),
    constraint ticker_max_lag check (queue_ticker_max_lag between '0' and '100 years'),
    constraint ticker_idle_period check (queue_ticker_idle_period between '0' and '100 years'),
    constraint per_tx_limit check (queue_per_tx_limit >= 0),
    constraint retention check (queue_retention between '0' and '100 years')
);
-- set_queue_config shows these when it refuses a value
comment on constraint rotation_period on pgq.queue is 'an interval from 0 to 100 years';
comment on constraint ticker_max_count on pgq.queue is 'a whole number from 1 to 2147483647';
comment on constraint ticker_max_lag on pgq.queue is 'an interval from 0 to 100 years';
comment on constraint ticker_idle_period on pgq.queue is 'an interval from 0 to 100 years';
comment on constraint per_tx_limit on pgq.queue
    is 'a whole number from 0 to 2147483647, or empty: no limit';
comment on constraint retention on pgq.queue
    is 'an interval from 0 to 100 years, or empty: rotation removes what every consumer has had';
comment on table pgq.queue is 'One row per queue: settings, names of tables and sequences.';

-- Table: pgq.checked. Two rows for each queue, of two transactions, with the transaction ids by
-- which the rows themselves were written. A restore writes all rows anew, by one id: see is_moved.
create table pgq.checked (
    checked_queue int references pgq.queue,
    checked_number int check (checked_number in (1, 2)),
    checked_xmin bigint not null,
    primary key (checked_queue, checked_number)
);
comment on table pgq.checked is 'Whether a queue''s rows were written in this database.';

-- Table: pgq.tick. The ticks that are kept: stored snapshots.
--
-- The ticker inserts into pgq.tick_recent, which inherits from this table. compact_ticks moves the
-- ticks worth keeping here, and maint_ticks deletes them in bulk.
create table pgq.tick (
    tick_queue int not null references pgq.queue,
    tick_id bigint not null,
    tick_time timestamptz not null default now(),
    tick_snapshot txid_snapshot not null default txid_current_snapshot(),
    tick_event_seq bigint not null,
    primary key (tick_queue, tick_id)
);
comment on table pgq.tick is 'Stored snapshots: cuts in time.';

-- Table: pgq.tick_recent. The latest ticks; a query of pgq.tick, its parent, returns them too.
--
-- A deleted row stays as a dead row while any old snapshot might see it, and a busy queue ticks 200
-- times a second. TRUNCATE removes rows whatever the snapshots are (G6). So new ticks go into a
-- table of their own, and maint_recent_ticks empties it.
--
-- It has no foreign key: insert_tick and drop_queue lock the queue's row, and a tick costs less.
create table pgq.tick_recent (
    primary key (tick_queue, tick_id)
) inherits (pgq.tick) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_threshold = -1);  -- a vacuum would delay the compaction
comment on table pgq.tick_recent is 'The latest ticks, until they are compacted.';

-- Table: pgq.truncation_0. It is empty; each truncation renames it: see lock_truncation_mark. It is
-- unlogged, so that no publication holds it: a subscriber has it by another name.
create unlogged table pgq.truncation_0 ();
comment on table pgq.truncation_0 is 'Holds nothing. Its name counts truncations.';

end if; end $$;
