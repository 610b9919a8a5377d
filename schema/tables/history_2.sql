-- Table: pgq.history_2. Twelve hours of the history: see pgq.history.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.history_2 (primary key (hist_time)) inherits (pgq.history);
comment on table pgq.history_2 is 'Twelve hours of the history.';
end if; end $$;
