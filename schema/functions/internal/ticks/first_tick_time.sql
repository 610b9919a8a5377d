-- The time of the first tick that counts an event, or may see a transaction: whose event sequence
-- has reached the event's id, or whose snapshot ends after the transaction's. Neither ever falls
-- from tick to tick. So the search halves the range of tick ids; an idle queue has a tick a minute,
-- and reading all of them costs a thousand queues seconds.
-- Parameters: i_event_id, i_txid: one of the two, the other is null. i_first, i_last: the ticks to
--   search, both included; i_last may be missing.
-- Returns: null: both are null, or there is no such tick yet.
create or replace function pgq.first_tick_time(
    i_queue_id int, i_event_id bigint, i_txid bigint, i_first bigint, i_last bigint)
returns timestamptz language plpgsql as $$
declare
    v_low bigint := i_first;  -- no tick below it will do
    v_high bigint := i_last;
    v_half bigint;
    t pgq.tick;
begin
    while v_low < v_high loop
        v_half := v_low + (v_high - v_low) / 2;
        select * into t from pgq.tick
         where tick_queue = i_queue_id and tick_id >= v_half order by tick_id limit 1;
        if t.tick_event_seq < i_event_id or txid_snapshot_xmax(t.tick_snapshot) <= i_txid then
            v_low := v_half + 1;
        else  -- also without a tick from v_half on
            v_high := v_half;
        end if;
    end loop;
    select * into t from pgq.tick
     where tick_queue = i_queue_id and tick_id >= v_low order by tick_id limit 1;
    return case when t.tick_event_seq >= i_event_id
            or txid_snapshot_xmax(t.tick_snapshot) > i_txid then t.tick_time end;
end $$;
