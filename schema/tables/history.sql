-- Table: pgq.history. The last 24 hours of queues and consumers, a row a minute for all of them:
-- arrays side by side, with 12 bytes for each queue and 28 for each consumer before compression.
-- maint_history writes them, get_history reads them.
--
-- The rows are in three tables that inherit. One is written for twelve hours, and truncated before
-- it is written again. So no row is ever deleted or updated (G6). This one is empty: its lock lets
-- one session write at a time.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.history (
    hist_time timestamptz not null,
    hist_queues int[] not null,  -- queue_id
    hist_seqs bigint[] not null,  -- the event sequence of the queue's last tick
    hist_subs int[] not null,  -- sub_id
    hist_lags real[] not null,  -- seconds; 0: no event is pending; null: unknown
    hist_pending bigint[] not null,
    hist_retries int[] not null,
    hist_dead int[] not null,
    hist_parked int[] not null
);
comment on table pgq.history is 'The last 24 hours of queues and consumers; holds no row itself.';
for n in 0 .. 2 loop
    execute format(
        'create table pgq.%I (primary key (hist_time)) inherits (pgq.history)', 'history_' || n);
    execute format(
        'comment on table pgq.%I is %L', 'history_' || n, 'Twelve hours of the history.');
end loop;
end if; end $$;
