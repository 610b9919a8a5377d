-- The last number of a run, for the mark of returned runs: see pgq.front. A transaction that gives
-- a run its number has an id before. So those that may still commit a number up to this one have
-- smaller ids than any that is taken after this call.
-- Returns: null if the transaction has an id already.
create or replace function pgq.last_number() returns bigint language sql as $$
    select case when txid_current_if_assigned() is null
        then coalesce(pg_sequence_last_value('pgq.run_no_seq'), 0) end
$$;
