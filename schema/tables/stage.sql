do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.ledger. The last epoch that each writer of stages committed: see commit_stage. So one
-- that may repeat an epoch, such as a Spark query, commits each epoch once.
create table pgq.ledger (
    ledger_queue int not null,
    ledger_writer text not null,
    ledger_epoch bigint,  -- null: the writer writes once
    ledger_fingerprint bigint,  -- of the epoch's events; null: unknown
    ledger_time timestamptz not null default now(),
    primary key (ledger_queue, ledger_writer)
) with (fillfactor = 50);  -- room to update a row within its page
comment on table pgq.ledger is 'What each writer of stages has committed.';

-- Table: pgq.stage. A stage is a transaction whose events wait until commit_stage: see open_stage.
-- A row hides the events of its transaction; commit_stage writes down which transaction releases
-- them. So each event is written once.
--
-- A stage is named by a random number, not by its transaction. A standby that lags knows nothing of
-- the last transactions when it becomes the primary, and gives their ids to other transactions: a
-- lost stage would be taken for another task's, and its events would be missing without an error.
--
-- A row stays as long as the queue's tables hold events of its transaction: see maint_stages.
create table pgq.stage (
    stage_queue int not null,
    stage_txid bigint not null,
    stage_id bigint not null,  -- as open_stage returned it
    stage_writer text not null,
    stage_epoch bigint,
    stage_time timestamptz not null default now(),
    stage_released_by bigint,  -- the transaction that did; null: the events wait; 0: dropped
    stage_events bigint,  -- an estimate for parallel readers; null before commit_stage
    primary key (stage_queue, stage_txid)
);
create index stage_released_by_idx on pgq.stage (stage_queue, stage_released_by);
comment on table pgq.stage is 'Transactions whose events wait for commit_stage, or waited for it.';

end if; end $$;
