do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.front. How far a shared consumer has looked: the newest row counts, as in
-- pgq.position.
--
-- What front_snapshot sees is done, in pgq.inflight, or in a piece. So it does not wait for a tick.
-- front_tick is a tick that it sees: without pieces, the consumer's position moves there.
-- front_seq is the event sequence at that time: it tells how much is new, not whether anything is.
-- No fresh run has a number below front_low, and no returned run one below front_back: a claim
-- starts there, and does not walk over the dead rows that an old snapshot keeps (G6). Only a refill
-- makes fresh runs, so front_low is exact. Handlers return runs, and commit when they like:
-- front_back becomes front_next_back when all transactions below front_next_xid have ended, because
-- no other can commit a number up to front_next_back: see last_number.
-- A claim of a run from front_half to front_end refills ahead. front_run is the mean length of the
-- fresh runs. front_due: what was due before was looked at. front_swept: see sweep_runs.
create table pgq.front (
    front_sub int not null,
    front_no bigint not null,
    front_snapshot txid_snapshot not null,
    front_seq bigint not null,
    front_tick bigint not null,
    front_moved timestamptz not null default clock_timestamp(),  -- to this snapshot
    front_low bigint not null default 0,
    front_half bigint not null default 9223372036854775807,
    front_end bigint not null default 0,
    front_run int not null default 1,
    front_back bigint not null default 0,
    front_next_back bigint not null default 0,
    front_next_xid bigint not null default 0,
    front_due timestamptz not null default '-infinity',
    front_looked timestamptz not null default '-infinity',
    front_swept timestamptz not null default '-infinity',
    primary key (front_sub, front_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
comment on table pgq.front is 'How far a shared consumer has looked: the highest front_no counts.';

-- Table: pgq.piece. The places of events of a large range that no refill has read yet: a row has
-- the first and the last place of 1,024 ids in one event table. piece_end sees the events of the
-- range, and piece_start does not. Meanwhile the consumer's position stays before the range, so no
-- event of it is truncated.
create table pgq.piece (
    piece_sub int not null,
    piece_front bigint not null,  -- front_no
    piece_group bigint not null,  -- ev_id >> 10
    piece_table int not null,
    piece_start txid_snapshot not null,
    piece_end txid_snapshot not null,
    piece_first tid not null,
    piece_last tid not null,
    primary key (piece_sub, piece_front, piece_group, piece_table)
);
comment on table pgq.piece is 'Parts of large ranges that a shared consumer has still to read.';

-- Table: pgq.inflight. The runs of a shared consumer's events that are not done.
--
-- A run is some events with one fate: one claim, one lease, one count of attempts. run_ids are the
-- ids, in order, and run_places their places in event table run_table. A run has one key, or none.
--
-- run_token is the state. > 0: claimed, by the claim with this token. 0: fresh. -1: retried, and
-- delayed until run_due. -2: waits behind an earlier run of its key. -3: returned or promoted,
-- claimed first.
-- run_token leads the primary key, so what cannot be claimed costs a claim nothing.
-- run_ord orders the runs of a key. run_behind: the run is claimed when no run of the key from
-- run_behind to before run_ord is left; null: at once. See add_runs.
-- run_slot, where several runs of a key may be claimed: the slot of its key that a claimed or
-- claimable run has; null: the run waits, is delayed, or is of a chain. See add_slotted.
-- run_due of a claim is the end of its lease; null: the holder's lease counts.
-- run_took: how many events the claim had. run_claimed: when it was made. run_part: at most so many
-- are claimed together, because claims that had them never ended. run_crashes: how many claims of
-- this event alone never ended; -1: one with others did not, which tells nothing yet.
create sequence pgq.run_no_seq maxvalue 140737488355327;  -- 2^47 - 1: see new_token
create table pgq.inflight (
    run_sub int not null,
    run_token bigint not null,
    run_no bigint not null,
    run_due timestamptz,
    run_key bigint,
    run_ord bigint not null,
    run_behind bigint,
    run_slot smallint,
    run_table smallint not null,
    run_attempts int not null default 0,
    run_took int,
    run_claimed timestamptz,
    run_part int,
    run_crashes smallint not null default 0,
    run_holder int,
    run_ids bigint[] not null,
    run_places tid[] not null,
    primary key (run_sub, run_token, run_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
alter table pgq.inflight alter run_ids set storage external, alter run_places set storage external;
create index inflight_due_idx on pgq.inflight (run_sub, run_due) where run_due is not null;
create index inflight_key_idx on pgq.inflight (run_sub, run_key, run_ord) where run_key is not null;
create index inflight_slot_idx on pgq.inflight (run_sub, run_key, run_slot)
    where run_slot is not null;
comment on table pgq.inflight is 'Runs of events that a shared consumer has not done yet.';

-- Table: pgq.last_run. The last run of each key, for add_runs alone. The newest row is the first
-- that a lookup finds, whatever dead rows an old snapshot keeps (G6).
create table pgq.last_run (
    last_sub int not null,
    last_key bigint not null,
    last_ord bigint not null,
    primary key (last_sub, last_key, last_ord)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
comment on table pgq.last_run is 'The last run of each key of a shared consumer.';

-- Table: pgq.inflight_copy. Events in flight whose event table was truncated, and where they were:
-- see copy_inflight. One copy serves all consumers of the queue.
create table pgq.inflight_copy (
    copy_queue int not null,
    copy_table int not null,
    copy_place tid not null,
    like pgq.event_template,
    primary key (copy_queue, ev_id, copy_table, copy_place)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
comment on table pgq.inflight_copy is 'Events in flight that outlived their event table.';

-- Table: pgq.holder. The processes that claim runs and have one lease for all their claims. A row
-- is updated by each heartbeat, and no index has a column that changes.
create table pgq.holder (
    holder_id serial primary key,
    holder_sub int not null,
    holder_name text not null,  -- host:pid
    holder_since timestamptz not null default clock_timestamp(),
    holder_until timestamptz not null,
    holder_pid int not null,
    holder_server timestamptz  -- when the server started that has its lock; null: it has none
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index holder_sub_idx on pgq.holder (holder_sub);
comment on table pgq.holder is 'Processes that claim events of shared consumers.';

-- Table: pgq.claim_rate. How many events a shared consumer with a rate could still claim at
-- rate_time: the newest row counts, as in pgq.position (G6).
create table pgq.claim_rate (
    rate_sub int not null,
    rate_no bigint not null,
    rate_left double precision not null,
    rate_time timestamptz not null default clock_timestamp(),
    primary key (rate_sub, rate_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
comment on table pgq.claim_rate is 'How many events a shared consumer with a rate may claim.';

end if; end $$;
