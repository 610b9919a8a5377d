-- Inserts an event unless one was inserted under the same key, in the same queue, and the key is
-- still taken. The key and its event commit or roll back together.
--
-- The simple way is one "insert ... on conflict do update ... where": it locks the key's row for
-- a repeated call too, so repeated calls wait for one another. Here a repeated call only reads: no
-- lock, no transaction id, no event id.
--
-- Of two calls at once, one inserts the key's row, and the other waits until that transaction ends.
-- If it committed, the second call returns the first one's event; if it rolled back, the second
-- call inserts. The expired row of a key is updated; a call that finds it deleted begins again.
-- Whether a key has expired is judged by the time of the call: a call within the window never
-- inserts, however long the first transaction stays open. "+ interval '0'" keeps the planner from
-- the index by time, which holds dead rows.
-- Parameters: i_key: from 1 to 1,000 octets. i_window: how long the key is taken; a repeated call's
--   window counts for nothing. i_deliver_at: a new event is due then, as in insert_event_at; the
--   window begins with the call all the same.
-- Returns: ev_id: of the new event, or of the one that took the key; is_new: false: it did.
-- Raises: PQ001; PQ006 Insert into queue disallowed; PQ007 per-transaction limit; PQ009 a NULL, a
--   wrong key, window or time, or the transaction is a stage; 40001 in REPEATABLE READ, another
--   session took the key after the snapshot; 42P01 the queue was dropped meanwhile.
-- Writes: ROW EXCLUSIVE lock on an event table; insert or update pgq.dedup_key; nextval of the
--   queue's sequence; insert into its current table, or pgq.delayed_event; the settings of
--   count_insert, and pgq.no_stage_<queue id>.
create or replace function pgq.insert_event_once(
    i_queue_name text, i_key text, i_window interval, ev_type text, ev_data text,
    ev_extra1 text default null, ev_extra2 text default null, ev_extra3 text default null,
    ev_extra4 text default null, i_deliver_at timestamptz default null,
    out ev_id bigint, out is_new boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
declare
    v_now constant timestamptz := clock_timestamp();
    q pgq.queue;
    v_id bigint;
begin
    if i_key is null or i_key = '' or octet_length(i_key) > 1000 then
        raise exception 'the dedup key has % octets', coalesce(octet_length(i_key), 0)
            using errcode = 'PQ009', hint = 'give a key of 1 to 1,000 octets, such as the text '
                '"reminder:17:2026-11-23"; of a longer one its hash';
    elsif (i_window > '0' and i_window <= '100 years') is not true then
        raise exception 'a dedup key cannot be taken for %', coalesce(i_window::text, 'NULL')
            using errcode = 'PQ009', hint = 'give an interval of more than 0, up to 100 years';
    end if;
    select * into q from pgq.queue where queue_name = i_queue_name;
    if q.queue_id is null or q.queue_disable_insert then
        perform pgq.count_insert(i_queue_name, q.queue_id, q.queue_disable_insert, null, 0);
    end if;
    perform pgq.check_unstaged(q.queue_id);
    loop
        select dedup_ev_id into ev_id from pgq.dedup_key
         where dedup_queue = q.queue_id and dedup_key = i_key collate "C"
           and dedup_until + interval '0' > v_now;
        if found then
            is_new := false;
            return;
        elsif v_id is null then
            perform pgq.lock_current_table(q);  -- as drop_queue: before the sequence and the key
            perform txid_current();  -- before the id, as in build_insert_leaf
            v_id := nextval(q.queue_event_seq::regclass);
        end if;
        insert into pgq.dedup_key (dedup_queue, dedup_key, dedup_until, dedup_ev_id)
        values (q.queue_id, i_key, clock_timestamp() + i_window, v_id)
        on conflict (dedup_queue, dedup_key) do nothing;
        exit when found;
        update pgq.dedup_key set dedup_until = clock_timestamp() + i_window, dedup_ev_id = v_id
         where dedup_queue = q.queue_id and dedup_key = i_key collate "C"
           and dedup_until + interval '0' <= v_now;
        exit when found;
    end loop;
    ev_id := v_id;
    is_new := true;
    if i_deliver_at > v_now then
        perform pgq.begin_delayed(i_queue_name, i_deliver_at, 1);
        insert into pgq.delayed_event (ev_deliver_at, ev_queue, ev_id, ev_time, ev_txid,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        values (i_deliver_at, q.queue_id, v_id, now(), txid_current(),
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
        return;
    end if;
    if q.queue_per_tx_limit is not null then
        perform pgq.count_insert(i_queue_name, q.queue_id, false, q.queue_per_tx_limit, 1);
    end if;
    perform set_config('pgq.no_stage_' || q.queue_id, 'on', true);  -- for open_stage
    perform pgq.insert_row(q.queue_id, v_id, now(), null, null,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
end $$;
comment on function pgq.insert_event_once is 'Inserts an event unless its key is taken.';
