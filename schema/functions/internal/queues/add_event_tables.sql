-- Function: pgq.add_event_tables(x_queue_name text, x_ntables text)
--
-- Gives a queue more rotating tables. Fewer tables are refused, because events would have to move.
-- The caller holds the advisory lock of create_queue and the queue's row lock.
--
-- Raises: PQ009.
-- Writes: update pgq.queue; create table, create function.
create or replace function pgq.add_event_tables(x_queue_name text, x_ntables text)
returns void language plpgsql as $$
declare
    q pgq.queue;
    v_ntables int;
begin
    select * into q from pgq.queue where queue_name = x_queue_name;
    begin
        v_ntables := x_ntables::int;
        update pgq.queue set queue_ntables = v_ntables where queue_id = q.queue_id;
    exception when data_exception or integrity_constraint_violation then
        v_ntables := 0;
    end;
    if v_ntables < q.queue_ntables then
        raise exception 'invalid value "%" for parameter "ntables"', x_ntables using errcode = 'PQ009',
            hint = format('a whole number from %s (what it is) to 64', q.queue_ntables);
    end if;
    for i in q.queue_ntables .. v_ntables - 1 loop
        perform pgq.create_event_table(q, i);
    end loop;
    perform pgq.grant_perms(x_queue_name);
    perform pgq.tune_storage(x_queue_name);
    perform pgq.build_insert_path(q.queue_id);
end
$$;
comment on function pgq.add_event_tables(text, text) is 'Gives a queue more rotating tables.';
