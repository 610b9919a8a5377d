-- Table: pgq.checked. One row for each queue, with the transaction id by which the row itself was
-- written. A restore writes all rows anew, and so with other ids: see is_moved. PGQ has no such
-- table.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.checked (
    checked_queue int primary key references pgq.queue,
    checked_xmin bigint not null
);
comment on table pgq.checked
    is 'One row per queue: whether its rows were written in this database.';
end if; end $$;
