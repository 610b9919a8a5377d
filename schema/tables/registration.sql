-- Table: pgq.registration. The subscriptions: which consumer reads which queue.
--
-- A session that moves a subscription's position locks the row in this table, because positions are
-- only appended, so no position row stands for the subscription: see move_position. PGQ's table
-- pgq.subscription is a view here.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.registration (
    sub_id serial primary key,
    sub_queue int not null references pgq.queue,
    sub_consumer int not null references pgq.consumer,
    unique (sub_queue, sub_consumer)
);
comment on table pgq.registration
    is 'Which consumer reads which queue. Its row lock serialises the owners of a position.';
end if; end $$;
