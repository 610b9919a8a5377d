do $$ begin if not exists (select from pgq.installation) then

-- Table: pgq.history. The last 24 hours of queues and consumers, a row a minute for all of them:
-- arrays side by side, with 12 bytes for each queue and 24 for each consumer before compression.
-- maint_history writes them, get_history reads them.
--
-- The rows are in three tables that inherit. One is written for twelve hours, and truncated before
-- it is written again. So no row is ever deleted or updated (G6). This one is empty: its lock lets
-- one session write at a time.
create table pgq.history (
    hist_time timestamptz not null,
    hist_queues int[] not null,  -- queue_id
    hist_seqs bigint[] not null,  -- the event sequence of the queue's last tick
    hist_subs int[] not null,  -- sub_id
    hist_lags real[] not null,  -- seconds; 0: no event is pending; null: unknown
    hist_pending bigint[] not null,
    hist_retries int[] not null,
    hist_dead int[] not null
);
comment on table pgq.history is 'The last 24 hours of queues and consumers; holds no row itself.';
for n in 0 .. 2 loop
    execute format(
        'create table pgq.%I (primary key (hist_time)) inherits (pgq.history)', 'history_' || n);
    execute format(
        'comment on table pgq.%I is %L', 'history_' || n, 'Twelve hours of the history.');
end loop;

-- Table: pgq.change. The changes that people make with a program such as the dashboard. It calls
-- begin_change before a change and end_change after it, each in a transaction of its own. So a
-- change that failed, or whose program died, is there too.
--
-- No role may insert, update or delete rows here; the functions do. maint_changes deletes them
-- after 90 days.
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
