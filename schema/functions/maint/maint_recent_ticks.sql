-- Compacts the table of the latest ticks when it is larger than a megabyte, some 10,000 ticks: see
-- compact_ticks. All other sessions wait meanwhile, some tens of milliseconds.
-- Returns: 0: done, or put off until the next call.
-- Raises: nothing; in other isolation levels than READ COMMITTED it does nothing.
-- Writes: as compact_ticks.
create or replace function pgq.maint_recent_ticks()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if pg_relation_size('pgq.tick_recent') > 1 << 20
            and current_setting('transaction_isolation') = 'read committed' then
        perform pgq.compact_ticks();
    end if;
    return 0;
end $$;
comment on function pgq.maint_recent_ticks is 'Compacts the latest ticks when they are many.';
