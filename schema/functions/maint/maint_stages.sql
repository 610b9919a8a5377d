-- Function: pgq.maint_stages()
--
-- Drops stages that nobody opened for a day, those of queues that are gone, and tables that no row names any more, unless
-- somebody uses them. Forgets writers: those that write once after a day, others when they were silent for 90 days.
-- A writer that comes back later than that, with an epoch it has committed, would commit it again.
--
-- Returns: 0, done.
-- Writes: as clear_stage; delete pgq.ledger.
create or replace function pgq.maint_stages()
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform pgq.clear_stage(stage_id, true) from pgq.stage
      where stage_time < now() - interval '1 day' or stage_queue not in (select queue_id from pgq.queue);
    perform pgq.clear_stage(substr(relname, 7)::int, true) from pg_class
      where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^stage_[0-9]+$'
        and substr(relname, 7)::int not in (select stage_id from pgq.stage);
    delete from pgq.ledger
     where ledger_time < now() - case when ledger_epoch is null then interval '1 day' else interval '90 days' end
        or ledger_queue not in (select queue_id from pgq.queue);
    return 0;
end
$$;
comment on function pgq.maint_stages() is 'Drops stages that nobody needs, and forgets writers that are gone.';
