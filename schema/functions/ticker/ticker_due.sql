-- Function: pgq.ticker_due()
--
-- The queues that pgq.ticker(queue) would tick now. One that can't be looked at is among them, so that its ticker
-- sees the error, and no other queue does. One that is being dropped is not.
--
-- Writes: as may_look_at; takes no xid.
create or replace function pgq.ticker_due()
returns setof text language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
begin
    for q in select * from pgq.queue where not queue_external_ticker and not queue_ticker_paused loop
        begin
            if pgq.may_look_at(q.queue_id) and pgq.tick_is_due(q) then
                return next q.queue_name;
            end if;
        exception when others then
            return next q.queue_name;
        end;
    end loop;
end
$$;
comment on function pgq.ticker_due() is 'The queues that pgq.ticker(queue) would tick now.';
