-- Inserts the event of a cron entry now, paused or not, with the present time. The schedule goes on
-- as if nothing had happened.
-- Returns: the event's id.
-- Raises: PQ023 No such cron entry; PQ006 Insert into queue disallowed; PQ007 per-transaction
--   limit.
-- Writes: as find_cron; insert into the queue's current table; nextval of its sequence.
create or replace function pgq.run_cron(i_name text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c constant pgq.cron := pgq.find_cron(i_name);
    q pgq.queue;
begin
    select * into q from pgq.queue where queue_id = c.cron_queue;
    perform pgq.count_insert(
        q.queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, 1);
    return pgq.insert_row(q.queue_id, null, now(), null, null,
        c.ev_type, c.ev_data, c.ev_extra1, c.ev_extra2, c.ev_extra3, c.ev_extra4);
end $$;
comment on function pgq.run_cron is 'Inserts the event of a cron entry now.';
