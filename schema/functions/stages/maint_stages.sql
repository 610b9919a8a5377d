-- Function: pgq.maint_stages()
--
-- Gives up stages that wait in vain: their epoch was committed by others, or their writer opened none of that epoch for a
-- day. Forgets those whose events are gone: no table has any of so old a transaction, and no tick that is left comes before
-- the transaction that gave them. Forgets writers too: those that write once after a day, others when they were silent for
-- 90 days. A writer that comes back later than that, with an epoch it has committed, would commit it again.
--
-- The order of locks is drop_queue's: event tables, then stages. What is looked at and what is deleted is one statement,
-- for a stage may end its waiting at any time. What somebody is just committing is passed over: the other order, stages
-- and then the ledger, would deadlock with commit_stage. So is a queue whose tables somebody holds.
--
-- Returns: 0, done.
-- Writes: ACCESS SHARE lock on event tables; update and delete pgq.stage; delete pgq.ledger.
create or replace function pgq.maint_stages()
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    q pgq.queue;
begin
    for q in
        select * from pgq.queue where queue_id in (select stage_queue from pgq.stage) order by queue_id
    loop
        begin
            execute format('lock table pgq.%I in access share mode nowait', pgq.event_table(q.queue_id));
            execute format($sql$
                delete from pgq.stage
                 where stage_queue = $1 and stage_commit is not null
                   and stage_txid < coalesce((select min(ev_txid) from pgq.%I), 9223372036854775807)
                   and (stage_commit = 0 or txid_visible_in_snapshot(stage_commit,
                            (select tick_snapshot from pgq.tick where tick_queue = $1 and tick_id >= $2 order by tick_id limit 1)))$sql$,
                pgq.event_table(q.queue_id))
                using q.queue_id, q.queue_low_tick;
        exception when undefined_table or lock_not_available then
            continue;  -- dropped meanwhile, or the next turn will do
        end;
        update pgq.stage set stage_commit = 0
         where stage_queue = q.queue_id and stage_txid in (
                select stage_txid from pgq.stage s
                 where stage_queue = q.queue_id and stage_commit is null
                   and (not exists (select from pgq.stage y
                                     where y.stage_queue = s.stage_queue and y.stage_writer = s.stage_writer
                                       and y.stage_epoch is not distinct from s.stage_epoch and y.stage_time > now() - interval '1 day')
                        or exists (select from pgq.ledger where ledger_queue = stage_queue and ledger_writer = stage_writer
                                      and (ledger_epoch >= stage_epoch) is not false))
                   for update skip locked);
    end loop;
    delete from pgq.stage where stage_queue not in (select queue_id from pgq.queue);
    delete from pgq.ledger
     where (ledger_queue, ledger_writer) in (
            select ledger_queue, ledger_writer from pgq.ledger
             where ledger_time < now() - case when ledger_epoch is null then interval '1 day' else interval '90 days' end
                or ledger_queue not in (select queue_id from pgq.queue)
               for update skip locked);
    return 0;
end
$$;
comment on function pgq.maint_stages() is 'Gives up stages that wait in vain, and forgets those and the writers that are gone.';
