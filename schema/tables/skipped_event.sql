-- Table: pgq.skipped_event. Events that cancel_event or skip_event hides from the batches of the
-- subscription skip_sub. PGQ has no such table.
--
-- A row names one row of an event table by its own ev_txid and ev_id: an event, also one of a
-- stage, or a retried copy. The transactions of a batch are a range, so a batch finds its rows by
-- one index probe, and hides the same events however ticks are merged. A row stays until no
-- consumer can be moved back before its event. maint_skipped_events deletes at the low end of the
-- transactions, where no batch looks (G6).
--
-- Rows with the queue's negative id as skip_sub are for consumers that register later. A row with
-- skip_txid 0 hides nothing from batches, only from a replay: its event was not there at a repair.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.skipped_event (
    skip_sub int not null,
    skip_txid bigint not null,
    skip_id bigint not null,
    primary key (skip_sub, skip_txid, skip_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
comment on table pgq.skipped_event is 'Events that were cancelled before a subscription had them.';
end if; end $$;
