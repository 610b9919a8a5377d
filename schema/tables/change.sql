-- Table: pgq.change. The changes that people make with a program such as the dashboard. It calls
-- begin_change before a change and end_change after it, each in a transaction of its own. So a
-- change that failed, or whose program died, is there too.
--
-- No role may insert, update or delete rows here; the functions do. maint_changes deletes them
-- after 90 days.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.change (
    change_id bigserial primary key,
    change_time timestamptz not null default clock_timestamp(),
    change_login text not null default session_user,
    change_user text,  -- the user's name in the program
    change_action text not null,
    change_queue text,
    change_consumer text,
    change_arguments jsonb,
    change_ended timestamptz,
    change_outcome text  -- null: it has not ended, or the program died first
);
comment on table pgq.change is 'Who changed what by a dashboard, and how it ended.';
end if; end $$;
