-- State, version 3: consumers and their positions.
--
-- PGQ keeps a consumer's position in one row that it updates twice a batch. While any transaction holds xmin
-- back those dead versions can't be removed, and every look at the row walks over all of them: 1,605 cycles a
-- second fall to 265 within 20,000 cycles. So a position is an append-only log here, read newest first: the
-- current one is the first hit of a backward index scan, and what maint_positions deletes lies at the far end,
-- where no lookup goes (G6).
--
-- pos_no counts up by one within a subscription and is unique. So two sessions that start from the same
-- position can't both move it, whatever their isolation level and whatever they locked (G3, G5).
do $migration$
begin
    if (select version from pgq.installation) >= 3 then
        return;
    end if;

    create sequence pgq.batch_id_seq;

    create table pgq.consumer (
        co_id serial primary key,
        co_name text not null unique
    );
    comment on table pgq.consumer is 'Names of consumers; one consumer may subscribe to many queues.';

    create table pgq.registration (
        sub_id serial primary key,
        sub_queue int not null references pgq.queue,
        sub_consumer int not null references pgq.consumer,
        unique (sub_queue, sub_consumer)
    );
    comment on table pgq.registration is 'Which consumer subscribes to which queue. Its row lock serialises the owners of a position.';

    create table pgq.position (
        pos_sub int not null,
        pos_no bigint not null,
        pos_last_tick bigint not null,
        pos_next_tick bigint,
        pos_batch bigint,
        pos_active timestamptz not null default now(),
        primary key (pos_sub, pos_no)
    ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
    create unique index position_batch_idx on pgq.position (pos_batch) where pos_batch is not null;
    comment on table pgq.position is 'The log of positions: the row with the highest pos_no of a subscription is its current one.';

    update pgq.installation set version = 3;
end
$migration$;
