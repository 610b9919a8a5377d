-- Table: pgq.consumer. The names of consumers.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.consumer (
    co_id serial primary key,
    co_name text not null unique
);
comment on table pgq.consumer is 'Names of consumers; one consumer may subscribe to many queues.';
end if; end $$;
