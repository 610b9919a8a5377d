-- Generates the insert_event that fills these columns. After the change of one queue, a body that
-- stays the same is not replaced: every session would have to read the function again.
-- Parameters: i_groups: the groups to call; null: insert_event serves all queues itself. i_anew:
--   replace the function in any case.
-- Writes: create function.
create or replace function pgq.build_insert_event(i_columns text, i_groups int[], i_anew boolean)
returns void language plpgsql as $$
declare
    v_texts constant text := replace(i_columns, ',', ' text,') || ' text';
    v_values constant text :=
        i_columns || repeat(', null', 6 - cardinality(string_to_array(i_columns, ',')));
    v_tree text;
    v_body text;
begin
    if i_groups is null then
        select pgq.build_insert_tree(
                    array_agg(queue_id order by queue_id),
                    array_agg(pgq.build_insert_leaf(q, i_columns) order by queue_id))
          into v_tree from pgq.queue q;
    else
        select pgq.build_insert_tree(
                    array_agg(g * 64 order by g),
                    array_agg(format(E'return pgq.insert_group_%s(v_queue, v_table, v_txid, %s);\n',
                        g, v_values) order by g))
          into v_tree from unnest(i_groups) g;
    end if;
    v_body := format($body$
#variable_conflict use_variable
declare
    v_queue int;
    v_table int;
    v_disabled boolean;
    v_limit int;
    v_txid bigint;
begin
    select q.queue_id, q.queue_cur_table, q.queue_disable_insert, q.queue_per_tx_limit
      into v_queue, v_table, v_disabled, v_limit
      from pgq.queue q where q.queue_name = insert_event.queue_name;
    if v_queue is null or v_disabled or v_limit is not null then
        perform pgq.count_insert(queue_name, v_queue, v_disabled, v_limit, 1);
    end if;
    v_txid := txid_current();
%sreturn pgq.insert_row(v_queue, null, now(), null, null, %s);
end
$body$, v_tree, v_values);
    if i_anew or v_body is distinct from (
            select prosrc from pg_proc
             where oid = to_regprocedure(format('pgq.insert_event(text, %s)',
                regexp_replace(i_columns, '[a-z0-9_]+', 'text', 'g')))) then
        execute format('create or replace function pgq.insert_event(queue_name text, %s) '
            'returns bigint language plpgsql security definer '
            'set search_path = pg_catalog, pg_temp as %L', v_texts, v_body);
    end if;
end $$;
