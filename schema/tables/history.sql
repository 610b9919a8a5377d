-- Table: pgq.history. The last 24 hours of queues and consumers, a row a minute for all of them.
-- maint_history writes them, get_history reads them.
--
-- A row holds what has changed since the row before, as arrays side by side; a full row, the first
-- of each hour and of each table, holds everything. So a row has 12 bytes for each queue and 28 for
-- each consumer that changed, before compression.
--
-- The rows are in three tables that inherit. One is written for twelve hours, and truncated before
-- it is written again. So no row is ever deleted or updated (G6). This one is empty: its lock lets
-- one session write at a time.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.history (
    hist_time timestamptz not null,
    hist_full boolean not null,
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
end if; end $$;
