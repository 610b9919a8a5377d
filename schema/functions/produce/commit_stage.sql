-- Function: pgq.commit_stage(i_queue_name text, i_writer text, i_epoch bigint, i_attempts uuid[], i_events bigint)
--
-- Makes events of what the named attempts staged, in their order, unless that was done before: whoever says it twice,
-- or two who say it at once, insert it once. The ledger's row is written first, and its lock makes the second wait.
--
-- All of it is one transaction, the caller's: events, ledger, and the empty stage. The events are counted, for the table
-- is unlogged: a crash empties it, also between two tasks.
--
-- A function that runs per row is avoided where it can be: at a million events each costs a tenth of a second.
--
-- Parameters: i_writer, i_epoch: as in open_stage. i_events: how many the attempts wrote.
-- Returns: 1 inserted; 0 the epoch, or a later one, was committed before.
-- Raises: PQ001 No such queue; PQ006 Insert into queue disallowed; PQ007 per-transaction limit; PQ009 NULL;
--   PQ018 the stage is not what the tasks wrote; 40001 in REPEATABLE READ, somebody else was faster.
-- Writes: insert or update pgq.ledger; insert into the queue's current table; nextval of its sequence; as clear_stage;
--   delete pgq.stage.
create or replace function pgq.commit_stage(i_queue_name text, i_writer text, i_epoch bigint, i_attempts uuid[], i_events bigint)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
    q pgq.queue;
    s pgq.stage;
    v_events bigint := 0;
begin
    if i_attempts is null or i_events is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009', hint = 'give the attempts and the number of their events';
    end if;
    perform pgq.check_name('writer', i_writer, 200);
    select * into q from pgq.queue where queue_name = i_queue_name;
    perform pgq.check_insert(i_queue_name, q.queue_id, false, null, 0);
    insert into pgq.ledger as l (ledger_queue, ledger_writer, ledger_epoch) values (q.queue_id, i_writer, i_epoch)
    on conflict (ledger_queue, ledger_writer) do update
       set ledger_epoch = excluded.ledger_epoch, ledger_time = now() where l.ledger_epoch < excluded.ledger_epoch;
    if not found then
        return 0;
    end if;
    perform pgq.check_insert(i_queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, least(i_events, 2147483647)::int);
    select * into s from pgq.stage where stage_queue = q.queue_id and stage_writer = i_writer;
    if to_regclass('pgq.stage_' || s.stage_id) is not null then
        execute format($sql$
            insert into %s (ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
            select nextval(%L::regclass), now(), %s, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
              from (select unnest(ev_types) as ev_type, unnest(ev_datas) as ev_data, unnest(ev_extra1s) as ev_extra1,
                           unnest(ev_extra2s) as ev_extra2, unnest(ev_extra3s) as ev_extra3, unnest(ev_extra4s) as ev_extra4
                      from (select p.* from pgq.stage_%s p join unnest($1) with ordinality a (id, n) on a.id = p.attempt
                             order by a.n, p.piece) pieces) events$sql$,
            pgq.quote_fqname(q.queue_data_pfx || '_' || q.queue_cur_table), q.queue_event_seq, txid_current(), s.stage_id)
            using i_attempts;
        get diagnostics v_events = row_count;
    end if;
    if v_events <> i_events then
        raise exception 'the stage holds % events, the tasks wrote %', v_events, i_events using errcode = 'PQ018',
            detail = format('queue %s, writer %s', i_queue_name, i_writer), hint = 'the server crashed meanwhile: write them again';
    end if;
    if not pgq.clear_stage(s.stage_id, i_epoch is null) then
        delete from pgq.stage where stage_id = s.stage_id;  -- the next epoch gets another table, maint_stages drops this one
    end if;
    return 1;
end
$$;
comment on function pgq.commit_stage(text, text, bigint, uuid[], bigint) is 'Makes events of what a writer staged, once.';
