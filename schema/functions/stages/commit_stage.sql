-- Releases the events of these stages, once: a second call for the same epoch, later or at the same
-- time, does nothing. The ledger's row is written first, and its lock makes the second call wait.
-- To consumers it looks as if this transaction had inserted all the events: only ev_id and ev_time
-- are older. The call moves the event sequence, so that tickers tick.
-- Parameters: i_writer, i_epoch: as in open_stage. i_stages: the ids that open_stage returned.
--   i_events: how many events the stages hold, for the queue's limit and for parallel readers.
--   i_fingerprint: a hash of the epoch's events that does not depend on their order; null: nothing
--   is compared. A writer with a fingerprint is refused where "done before" would lose or repeat
--   events: the epoch had other events, or a later epoch is committed, so the writer's checkpoint
--   is older than the ledger.
-- Returns: 1 released; 0 this epoch, or a later one, was committed before.
-- Raises: PQ001; PQ006, PQ007 as count_insert; PQ009 a NULL, a negative number, or a stage named
--   twice; PQ012 as check_moved; PQ018 not all of these stages wait; PQ019 the epoch was committed
--   with another fingerprint, or a later one was; 40001 in REPEATABLE READ, another session was
--   faster; 42P01 the queue was dropped meanwhile.
-- Writes: ROW EXCLUSIVE lock on an event table; insert or update pgq.ledger; update pgq.stage;
--   nextval of the queue's event sequence.
create or replace function pgq.commit_stage(
    i_queue_name text, i_writer text, i_epoch bigint, i_stages bigint[], i_events bigint,
    i_fingerprint bigint default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_found bigint;
    v_done pgq.ledger;
    v_wanted constant bigint := cardinality(i_stages);
begin
    if i_stages is null or i_events is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'give the stages and the number of their events';
    elsif i_events < 0 then
        raise exception 'negative number of events: %', i_events using errcode = 'PQ009',
            hint = 'give the number of the stages'' events';
    elsif v_wanted <> (select count(distinct s) from unnest(i_stages) s) then
        raise exception 'a stage is NULL or named twice' using errcode = 'PQ009',
            hint = 'name each stage once, by the id that pgq.open_stage returned';
    end if;
    perform pgq.check_name('writer', i_writer, 200);
    select * into q from pgq.queue where queue_name = i_queue_name;
    perform pgq.count_insert(i_queue_name, q.queue_id, false, null, 0);
    perform pgq.check_moved(q);
    perform pgq.lock_current_table(q);
    insert into pgq.ledger as l (ledger_queue, ledger_writer, ledger_epoch, ledger_fingerprint)
    values (q.queue_id, i_writer, i_epoch, i_fingerprint)
    on conflict (ledger_queue, ledger_writer) do update
       set ledger_epoch = excluded.ledger_epoch, ledger_fingerprint = excluded.ledger_fingerprint,
           ledger_time = now()
     where l.ledger_epoch < excluded.ledger_epoch;
    if not found then
        if i_fingerprint is not null then
            select * into v_done from pgq.ledger
             where ledger_queue = q.queue_id and ledger_writer = i_writer;
            if v_done.ledger_epoch > i_epoch then
                raise exception 'epoch % is repeated, but epoch % is committed already', i_epoch,
                    v_done.ledger_epoch using errcode = 'PQ019',
                    detail = format('queue %s, writer %s', i_queue_name, i_writer),
                    hint = 'the writer''s checkpoint is older than the ledger: restore the newer '
                        'one, or start under a new writer name (Spark: a new checkpointLocation)';
            elsif v_done.ledger_fingerprint <> i_fingerprint then
                raise exception 'epoch % was committed with other events', i_epoch
                    using errcode = 'PQ019',
                    detail = format('queue %s, writer %s', i_queue_name, i_writer),
                    hint = 'the writer''s checkpoint is older than the ledger, or its source '
                        'gives other events when it is read again';
            end if;
        end if;
        return 0;
    end if;
    perform pgq.count_insert(i_queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit,
        least(i_events, 2147483647)::int);
    update pgq.stage
       set stage_released_by = txid_current(),
           stage_events = (i_events + v_wanted - 1) / nullif(v_wanted, 0)
     where stage_queue = q.queue_id and stage_id = any (i_stages)
       -- none from before a restore
       and stage_txid < greatest(txid_snapshot_xmax(txid_current_snapshot()), txid_current() + 1)
       and stage_writer = i_writer and stage_epoch is not distinct from i_epoch
       and stage_released_by is null;
    get diagnostics v_found = row_count;
    if v_found <> v_wanted and current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the stages changed after this transaction''s snapshot was taken'
            using errcode = '40001', hint = 'roll back and call again';
    elsif v_found <> v_wanted then
        raise exception '% of these % stages wait to be committed', v_found, v_wanted
            using errcode = 'PQ018',
            detail = format('queue %s, writer %s, epoch %s', i_queue_name, i_writer, i_epoch),
            hint = 'they were dropped, waited for more than a day, or were lost in a failover or '
                'a repair of the queue: write the events again';
    end if;
    perform nextval(q.queue_event_seq::regclass);
    return 1;
end $$;
comment on function pgq.commit_stage is 'Releases the events of a writer''s stages, once.';
