-- Makes runs of the events that are new for a shared consumer, and moves its front. One transaction
-- writes the front, the runs and the pieces. One session at a time refills: see pgq.lock_number.
--
-- A refill looks at everything up to now; it needs no tick. Of a large backlog it takes what the
-- next fitting tick sees, and a range that is larger still is noted in pieces, whose events it
-- reads little by little. That no id was taken since says nothing: a producer takes its id before
-- it commits. A tick that was chosen by its sequence number may see nothing new: then it goes on
-- from there.
-- Parameters: i_seen: the front_no by which the caller looked for runs. Others may have made some
--   since then, so that nothing is new for this refill.
-- Returns: whether looking again is worth while.
-- Raises: PQ012 the queue was moved, or as check_queue; PQ024 it was detached; as range_sql.
-- Writes: advisory lock; insert, delete pgq.front; as check_queue, add_runs, add_pieces,
--   take_piece, follow_front.
create or replace function pgq.refill(
    s pgq.registration, i_limit int, i_alone boolean, i_seen bigint)
returns boolean language plpgsql as $$
declare
    f pgq.front;
    c_end constant bigint := 9223372036854775807;
    c_most constant int := least(greatest(512, 32 * i_limit), 32000);  -- events of a refill
    c_key constant text := case when s.sub_key is null then 'null::bigint'
        else format('hashtextextended(%I, 0)', 'ev_' || s.sub_key) end;
    b record;  -- the next front
    p record;
    v_ids bigint[];
    v_places tid[];
    v_tables int[];
    v_keys bigint[];
    q pgq.queue;
    v_version text;
    v_first bigint;
    made record;
    v_runs int := 0;
    v_claimable int := 0;
    v_events int := 0;
    v_large boolean;
    v_more boolean := false;
    v_moved boolean := false;
    v_more_runs boolean;
begin
    if not pg_try_advisory_xact_lock(pgq.lock_number('refill'), s.sub_id) then
        if i_alone then
            -- a session lock, given back at once: held to the end of the transaction, the locks of
            -- those who waited would keep the next refill out
            perform pg_advisory_lock_shared(pgq.lock_number('refill'), s.sub_id),
                    pg_advisory_unlock_shared(pgq.lock_number('refill'), s.sub_id);
        end if;
        return i_alone;
    end if;
    select * into q from pgq.queue where queue_id = s.sub_queue;
    v_version := (select xmin::text from pgq.queue where queue_id = s.sub_queue);
    select * into f from pgq.front where front_sub = s.sub_id order by front_no desc limit 1;
    if not found then
        return false;  -- it is plain now: see leave_flight
    end if;
    if current_setting('pgq.checked_' || q.queue_id, true) is distinct from v_version then
        perform pgq.check_queue(q.queue_id, q.queue_name, v_version);
    end if;
    if txid_snapshot_xmax(f.front_snapshot) > txid_snapshot_xmax(txid_current_snapshot()) then
        -- the front may be ahead of the last tick, which check_queue looks at
        raise exception 'a consumer of queue % has seen transactions that this cluster has not had',
            q.queue_name using errcode = 'PQ012',
            hint = format('select pgq.repair_queue(%L)', q.queue_name);
    end if;
    f.front_low := coalesce((
        select run_no from pgq.inflight
         where run_sub = s.sub_id and run_token = 0 and run_no >= f.front_low
         order by run_no limit 1), c_end);
    v_first := nextval('pgq.run_no_seq');
    while v_claimable < c_most and v_events < greatest(c_most, 32000) loop
        select piece_front, piece_group into p from pgq.piece where piece_sub = s.sub_id
         order by piece_front, piece_group limit 1;
        v_more := found;
        if v_more then  -- a piece of a large range that was noted before
            select * into v_ids, v_places, v_tables, v_keys
              from pgq.take_piece(s, p.piece_front, p.piece_group, c_key);
        else  -- the next range, which is read at once if it is small, else noted in pieces
            exit when v_events > 0;
            b := pgq.next_front(s, f, c_most);
            v_ids := null;
            v_large := b.seq - f.front_seq >= 4 * c_most;
            if not v_large then
                select * into v_ids, v_places, v_tables, v_keys
                  from pgq.read_new(s, f.front_snapshot, b.snapshot, c_key, 4 * c_most);
                v_large := coalesce(cardinality(v_ids) = 4 * c_most, false);
            end if;
            exit when not v_large and not b.is_tick and v_ids is null;  -- nothing is new
            if v_large then
                perform pgq.add_pieces(s, f.front_no, f.front_snapshot, b.snapshot);
            end if;
            f.front_snapshot := b.snapshot;
            f.front_seq := b.seq;
            f.front_tick := b.tick;
            v_moved := true;
            v_more := b.is_tick;
            continue when v_large;  -- with its pieces
        end if;
        if cardinality(v_ids) > 0 then
            made := pgq.add_runs(s, (f.front_no + 1 << 24) + v_events, least(i_limit, 32),
                v_ids, v_places, v_tables, v_keys);
            v_runs := v_runs + made.runs;
            v_claimable := v_claimable + made.claimable;
            v_events := v_events + cardinality(v_ids);
        end if;
    end loop;
    if not v_moved and v_events = 0 then
        -- Nothing is new. The front follows the ticks once a second at most, for rotation, and so
        -- that the transactions to look at do not become many.
        if b.tick <= f.front_tick or f.front_moved > clock_timestamp() - interval '1 second' then
            return f.front_no > i_seen;
        end if;
        v_moved := true;
        f.front_snapshot := b.snapshot;
        f.front_seq := b.seq;
        f.front_tick := b.tick;
    end if;
    if v_moved then
        f.front_moved := clock_timestamp();
    end if;
    if v_runs > 0 then
        f.front_run := greatest(1, v_events / v_runs);
    end if;
    -- Its tables are locked since they were read. So if it was detached, and events truncated, that
    -- was before, and this statement sees it. So it does a change of the key: that held the lock.
    perform pgq.raise_detached(q.queue_name, co_name, sub_detached)
       from pgq.registration join pgq.consumer on co_id = sub_consumer
      where sub_id = s.sub_id and sub_detached is not null;
    if not exists (
            select from pgq.registration
             where sub_id = s.sub_id and sub_key is not distinct from s.sub_key
               and sub_per_key = s.sub_per_key) then
        raise exception 'the consumer has another key now' using errcode = '40001',
            hint = 'roll back and call again';
    end if;
    v_more_runs := v_events > 0 or f.front_no > i_seen;
    f.front_no := f.front_no + 1;
    f.front_low := least(f.front_low, v_first);
    f.front_half := case when v_more then v_first + v_runs / 2 else c_end end;
    f.front_end := nextval('pgq.run_no_seq');
    perform pgq.move_front(f);
    if v_events = 0 then
        perform pgq.follow_front(s, f);
    end if;
    return v_more_runs;
end $$;
