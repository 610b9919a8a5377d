-- Refuses a limit or a lease out of range, and a transaction that is not READ COMMITTED.
-- Raises: PQ009 a limit that is not 1 to 10,000, a lease that is not a second to a day; PQ013 not
--   READ COMMITTED.
create or replace function pgq.check_claim(i_limit int, i_lease interval)
returns void language plpgsql as $$
begin
    perform pgq.check_isolation('receive');
    if (i_limit between 1 and 10000) is not true then
        raise exception 'a limit of % events', coalesce(i_limit::text, 'null')
            using errcode = 'PQ009', hint = 'receive claims from 1 to 10000 events';
    elsif (i_lease between '1 second' and '1 day') is not true then
        raise exception 'a lease of %', coalesce(i_lease::text, 'null') using errcode = 'PQ009',
            hint = 'a lease takes a second to a day; extend it while events are handled';
    end if;
end $$;
