-- Generates pgq.insert_group_N, which inserts an event into one of 64 queues: those with queue_id /
-- 64 = N.
-- Writes: create function; as set_rights.
create or replace function pgq.build_insert_group(i_group int) returns void language plpgsql as $$
declare
    v_columns constant text := 'ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_texts constant text := replace(v_columns, ',', ' text,') || ' text';
begin
    execute format($sql$
create or replace function pgq.insert_group_%1$s(v_queue int, v_table int, v_txid bigint, %2$s)
returns bigint language plpgsql as $body$
#variable_conflict use_variable
begin
%3$sreturn pgq.insert_row(v_queue, null, now(), null, null, %4$s);
end
$body$
$sql$, i_group, v_texts,
        (select pgq.build_insert_tree(
                    array_agg(queue_id order by queue_id),
                    array_agg(pgq.build_insert_leaf(q, v_columns) order by queue_id))
           from pgq.queue q where queue_id / 64 = i_group), v_columns);
    perform pgq.set_rights('pg_proc', format('pgq.insert_group_%s(int, int, bigint%s)',
        i_group, repeat(', text', 6))::regprocedure, '{}');
end $$;
