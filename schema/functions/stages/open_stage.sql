-- Makes the caller's transaction a stage: the events that it inserts into the queue, before or
-- after this call and by any means, wait until commit_stage names the stage. If nobody names it,
-- its events are never delivered, and rotation removes them: a day after the writer's last stage of
-- the epoch, see maint_stages.
--
-- So parallel tasks write as one transaction would: each commits its own transaction, of any size,
-- and one short call then releases the events of all of them. A task that is repeated is another
-- stage, with another id.
-- Parameters: i_writer: the name of what is written once, such as a Spark query. i_epoch: the
--   number of its commit, such as a micro-batch. They go up; gaps are allowed. Null: the writer
--   commits once and never again.
-- Returns: the stage's id, a random number; the same one if the transaction calls again. Null: the
--   epoch is committed already.
-- Raises: PQ001; PQ006 Insert into queue disallowed; PQ009 a wrong name, or the transaction is a
--   stage of another writer or epoch already, or inserted with a key or a delay; PQ012 as
--   check_moved.
-- Writes: insert pgq.stage.
create or replace function pgq.open_stage(i_queue_name text, i_writer text, i_epoch bigint)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_stage bigint;
begin
    perform pgq.check_name('writer', i_writer, 200);
    select * into q from pgq.queue where queue_name = i_queue_name;
    perform pgq.count_insert(i_queue_name, q.queue_id, q.queue_disable_insert, null, 0);
    perform pgq.check_moved(q);
    if current_setting('pgq.no_stage_' || q.queue_id, true) <> '' then
        raise exception 'this transaction has inserted an event with a key or a delay'
            using errcode = 'PQ009',
            hint = 'stage in a transaction of its own: see pgq.check_unstaged';
    end if;
    if exists (
            select from pgq.ledger
             where ledger_queue = q.queue_id and ledger_writer = i_writer
               and (ledger_epoch >= i_epoch) is not false) then
        return null;
    end if;
    insert into pgq.stage (stage_queue, stage_txid, stage_id, stage_writer, stage_epoch)
    -- random() would repeat its numbers after the session's setseed()
    values (q.queue_id, txid_current(),
        hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775807, i_writer, i_epoch)
    on conflict (stage_queue, stage_txid) do nothing;
    select stage_id into v_stage from pgq.stage
     where stage_queue = q.queue_id and stage_txid = txid_current() and stage_time = now()
       and stage_writer = i_writer and stage_epoch is not distinct from i_epoch;
    if not found then
        raise exception 'this transaction is a stage of something else' using errcode = 'PQ009',
            hint = 'stage each writer and each epoch in a transaction of its own';
    end if;
    return v_stage;
end $$;
comment on function pgq.open_stage is 'Makes the transaction a stage, for commit_stage.';
