-- Function: pgq.build_insert_tree(i_queue_ids int[], i_indent text)
--
-- The text of a binary tree of comparisons that calls pgq.event_N_insert for queue N: ten comparisons find one of
-- a thousand queues, where a list would take five hundred. A leaf compares once more, for equality: a session may run an
-- older tree than the queue it looks for (see build_insert_path), and must not fall into a neighbour's table.
--
-- Writes: nothing.
create or replace function pgq.build_insert_tree(i_queue_ids int[], i_indent text)
returns text language plpgsql immutable as $$
declare
    v_half int := cardinality(i_queue_ids) / 2;
begin
    if cardinality(i_queue_ids) = 1 then
        return format(E'%1$sif v_queue = %2$s then\n%1$s return pgq.event_%2$s_insert(v_table, x_id, x_time, x_owner, x_retry, '
            'x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4);\n%1$send if;\n', i_indent, i_queue_ids[1]);
    end if;
    return format(E'%1$sif v_queue < %2$s then\n%3$s%1$selse\n%4$s%1$send if;\n', i_indent, i_queue_ids[v_half + 1],
        pgq.build_insert_tree(i_queue_ids[:v_half], i_indent || ' '),
        pgq.build_insert_tree(i_queue_ids[v_half + 1:], i_indent || ' '));
end
$$;
comment on function pgq.build_insert_tree(int[], text) is 'The text of the tree that finds a queue''s insert function.';
