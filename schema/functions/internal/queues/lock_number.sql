-- The numbers of the engine's advisory locks. A lock has two: 'engine' and one of the next five, or
-- one of the others and what its line says. pgqpy/locks.py has the same numbers. The installation
-- takes its lock before this function is there: see install.sql, wait_for_maintenance.sql.
-- It is inlined into the expression that calls it.
create or replace function pgq.lock_number(i_name text)
returns int language sql immutable as $$
    select case i_name
        when 'engine' then 7366513
        when 'ticking' then 0  -- the ticker that is active
        when 'installing' then 1
        when 'changing' then 2  -- creates, drops, configures or repairs queues
        when 'watching' then 3  -- every ticker, active or standing by
        when 'moving' then 4  -- moves delayed events
        when 'consumer' then 7366514  -- sub_id
        when 'queue' then 7366515  -- queue_id: see ticker_activity
        when 'sequence' then 7366517  -- hashtext(name): see seq_setval
        when 'skips' then 7366518  -- queue_id: see hide_events
        when 'refill' then 7366519  -- sub_id
        when 'holder' then 7366520  -- holder_id
        when 'claim' then 7366521  -- sub_id: see claim_limit
        when 'copying' then 7366522  -- queue_id: see hold_cuts
    end
$$;
