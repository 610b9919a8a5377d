-- State, version 5: events set aside until ev_retry_after, for the subscription ev_owner. ev_txid
-- is the transaction that set them aside: maint_retry_events finds by it what is new since its last
-- look.
do $migration$
begin
    if (select version from pgq.installation) >= 5 then
        return;
    end if;

    create table pgq.retry_queue (
        ev_retry_after timestamptz not null,
        ev_queue int not null,
        like pgq.event_template,
        primary key (ev_owner, ev_id)
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
    alter table pgq.retry_queue alter ev_txid drop not null, alter ev_txid set default txid_current();
    create index retry_queue_after_idx on pgq.retry_queue (ev_retry_after);
    create index retry_queue_txid_idx on pgq.retry_queue (ev_txid);
    comment on table pgq.retry_queue is 'Events set aside; maint_retry_events puts them back when they are due.';

    update pgq.installation set version = 5;
end
$migration$;
