-- Function: pgq.build_insert_path()
--
-- Generates pgq.insert_row: finds the queue, checks that it may be written, dispatches to its static INSERT.
-- Callers hold the advisory lock of create_queue and drop_queue.
--
-- A session hears of a new version of a function when it next takes a lock that it does not hold yet. In the middle
-- of a transaction that may be never: the queue's row is there, and the tree that runs does not know it. Such an
-- insert goes by name, as does one whose old snapshot still shows a queue that is gone: that one finds no function.
--
-- The generated function raises PQ001, PQ006, PQ007 and PQ009.
-- Writes: create function.
create or replace function pgq.build_insert_path()
returns void language plpgsql as $$
declare
    v_queues int[] := (select array_agg(queue_id order by queue_id) from pgq.queue);
begin
    execute format($sql$
create or replace function pgq.insert_row(
    i_queue_name text, x_id bigint, x_time timestamptz, x_owner int, x_retry int, x_type text, x_data text,
    x_extra1 text, x_extra2 text, x_extra3 text, x_extra4 text)
returns bigint language plpgsql as $body$
declare
    v_queue int;
    v_table int;
    v_disabled boolean;
    v_limit int;
    v_id bigint;
begin
    select queue_id, queue_cur_table, queue_disable_insert, queue_per_tx_limit
      into v_queue, v_table, v_disabled, v_limit
      from pgq.queue where queue_name = i_queue_name;
    if v_queue is null or v_disabled or v_limit is not null then
        perform pgq.check_insert(i_queue_name, v_queue, v_disabled, v_limit, 1);
    end if;
%s    begin
        execute format('select pgq.event_%%s_insert($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)', v_queue) into v_id
            using v_table, x_id, x_time, x_owner, x_retry, x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4;
    exception when undefined_function then
        perform pgq.check_insert(i_queue_name, null, null, null, 1);
    end;
    return v_id;
end
$body$
$sql$, case when v_queues is null then '' else pgq.build_insert_tree(v_queues, '    ') end);
    revoke execute on function pgq.insert_row(text, bigint, timestamptz, int, int, text, text, text, text, text, text) from public;
end
$$;
comment on function pgq.build_insert_path() is 'Generates the dispatch of insert_event over all queues.';
