-- Table: pgq.ledger. The last epoch that each writer of stages committed: see commit_stage.
--
-- A writer that may repeat an epoch, such as a Spark query, commits each epoch once. PGQ has no
-- such table.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.ledger (
    ledger_queue int not null,
    ledger_writer text not null,
    ledger_epoch bigint,  -- null: the writer writes once
    ledger_fingerprint bigint,  -- of the epoch's events; null: unknown
    ledger_time timestamptz not null default now(),
    primary key (ledger_queue, ledger_writer)
) with (fillfactor = 50);  -- room to update a row within its page
comment on table pgq.ledger is 'What each writer of stages has committed.';
end if; end $$;
