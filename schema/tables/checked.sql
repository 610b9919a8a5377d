-- Table: pgq.checked. Two rows for each queue, of two transactions, with the transaction ids by
-- which the rows themselves were written. A restore writes all rows anew, by one id: see is_moved.
-- PGQ has no such table.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.checked (
    checked_queue int references pgq.queue,
    checked_number int check (checked_number in (1, 2)),
    checked_xmin bigint not null,
    primary key (checked_queue, checked_number)
);
comment on table pgq.checked is 'Whether a queue''s rows were written in this database.';
end if; end $$;
