-- The time of the first tick that may see a transaction: whose snapshot ends after its id. Such an
-- end never falls from tick to tick, so the search halves the range of tick ids, as counting_time.
-- Parameters: i_first, i_last: the ticks to search, both included; i_last may be missing.
-- Returns: null: a null parameter, or no tick may see it yet.
-- Writes: nothing.
create or replace function pgq.seen_time(
    i_queue_id int, i_txid bigint, i_first bigint, i_last bigint)
returns timestamptz language plpgsql strict as $$
declare
    v_low bigint := i_first;  -- no tick below it sees the transaction
    v_high bigint := i_last;
    v_half bigint;
    v_end bigint;
begin
    while v_low < v_high loop
        v_half := v_low + (v_high - v_low) / 2;
        select txid_snapshot_xmax(tick_snapshot) into v_end from pgq.tick
         where tick_queue = i_queue_id and tick_id >= v_half order by tick_id limit 1;
        if v_end <= i_txid then
            v_low := v_half + 1;
        else
            v_high := v_half;
        end if;
    end loop;
    return (select tick_time from (
                select * from pgq.tick
                 where tick_queue = i_queue_id and tick_id >= v_low order by tick_id limit 1) found
             where txid_snapshot_xmax(tick_snapshot) > i_txid);
end $$;
