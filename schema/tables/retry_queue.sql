-- Table: pgq.retry_queue. Events delivered again to the subscription ev_owner after ev_retry_after.
--
-- ev_txid is the transaction that inserted the row: maint_retry_events finds by it the rows that
-- are new since its last poll.
do $$ begin if not exists (select from pgq.installation) then
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
end if; end $$;
