-- The queues with ids from i_first to i_last that pgq.ticker(queue) would tick now: see find_due.
-- Writes: as find_due; takes no xid.
create or replace function pgq.ticker_due(
    i_first int default -2147483648, i_last int default 2147483647)
returns setof text language sql security definer set search_path = pg_catalog, pg_temp as $$
    select unnest(pgq.find_due(i_first, i_last))
$$;
comment on function pgq.ticker_due is 'The queues that pgq.ticker(queue) would tick now.';
