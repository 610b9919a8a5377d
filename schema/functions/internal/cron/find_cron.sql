-- The row of a cron entry, locked. The queue's row is locked first: so drop_queue waits for this
-- transaction before it holds any lock, and no producer waits for both.
-- Raises: PQ023 No such cron entry.
-- Writes: row locks pgq.queue (KEY SHARE), pgq.cron.
create or replace function pgq.find_cron(i_name text)
returns pgq.cron language plpgsql as $$
declare
    c pgq.cron;
begin
    perform from pgq.queue
      where queue_id = (select cron_queue from pgq.cron where cron_name = i_name) for key share;
    select * into c from pgq.cron where cron_name = i_name for update;
    if not found then
        raise exception 'No such cron entry' using errcode = 'PQ023',
            detail = format('cron entry %s', i_name), hint = 'select * from pgq.get_cron_info()';
    end if;
    return c;
end $$;
