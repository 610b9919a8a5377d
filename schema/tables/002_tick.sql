-- State, version 2: ticks. Inserted by the ticker, deleted in bulk by maint_ticks, never updated.
do $migration$
begin
    if (select version from pgq.installation) >= 2 then
        return;
    end if;

    create table pgq.tick (
        tick_queue int not null references pgq.queue,
        tick_id bigint not null,
        tick_time timestamptz not null default now(),
        tick_snapshot txid_snapshot not null default txid_current_snapshot(),
        tick_event_seq bigint not null,
        primary key (tick_queue, tick_id)
    );
    comment on table pgq.tick is 'A tick is a stored snapshot: what it sees is in the batches up to it, the rest in later ones.';

    update pgq.installation set version = 2;
end
$migration$;
