-- Cleans up after stages and their writers.
--
-- It drops a stage that waits in vain: the ledger has its epoch or a later one, or its writer
-- opened no stage of that epoch for a day. It deletes a stage's row when no event table holds an
-- event of so old a transaction, and every tick that is left sees the transaction that released it.
-- It deletes a writer's row in the ledger a day after its commit if the writer writes once, else
-- after 90 days without a commit: a writer that returned later would commit its epoch again.
--
-- The locks come in drop_queue's order: event tables, then stages. One statement finds and deletes
-- rows, because a stage may be committed at any time. Rows that a commit holds are skipped: the
-- other order would deadlock with commit_stage. A queue whose tables are locked is skipped too.
-- Returns: 0, done.
-- Writes: ACCESS SHARE lock on event tables; update and delete pgq.stage; delete pgq.ledger.
create or replace function pgq.maint_stages()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
begin
    for q in
        select * from pgq.queue where queue_id in (select stage_queue from pgq.stage)
         order by queue_id
    loop
        begin
            execute format(
                'lock table pgq.%I in access share mode nowait', pgq.event_table(q.queue_id));
            execute format($sql$
                delete from pgq.stage
                 where stage_queue = $1 and stage_released_by is not null
                   and stage_txid < coalesce((select min(ev_txid) from pgq.%I), 9223372036854775807)
                   and (stage_released_by = 0 or txid_visible_in_snapshot(stage_released_by, (
                        select tick_snapshot from pgq.tick
                         where tick_queue = $1 and tick_id >= $2 order by tick_id limit 1)))$sql$,
                pgq.event_table(q.queue_id))
                using q.queue_id, q.queue_low_tick;
        exception when undefined_table or lock_not_available then
            continue;  -- dropped meanwhile, or left for the next call
        end;
        update pgq.stage set stage_released_by = 0
         where stage_queue = q.queue_id and stage_txid in (
                select stage_txid from pgq.stage s
                 where stage_queue = q.queue_id and stage_released_by is null
                   and (not exists (
                            select from pgq.stage y
                             where y.stage_queue = s.stage_queue and y.stage_writer = s.stage_writer
                               and y.stage_epoch is not distinct from s.stage_epoch
                               and y.stage_time > now() - interval '1 day'
                               and y.stage_time < now() + interval '1 day')  -- clock was ahead
                        or exists (
                            select from pgq.ledger
                             where ledger_queue = stage_queue and ledger_writer = stage_writer
                               and (ledger_epoch >= stage_epoch) is not false))
                   for update skip locked);
    end loop;
    delete from pgq.stage where stage_queue not in (select queue_id from pgq.queue);
    delete from pgq.ledger
     where (ledger_queue, ledger_writer) in (
            select ledger_queue, ledger_writer from pgq.ledger
             where ledger_time < now() - case when ledger_epoch is null
                    then interval '1 day' else interval '90 days' end
                or ledger_queue not in (select queue_id from pgq.queue)
               for update skip locked);
    return 0;
end $$;
comment on function pgq.maint_stages is 'Drops stages that wait in vain, and old rows.';
