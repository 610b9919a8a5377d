-- The source text of a binary tree of comparisons: leaf n serves the queue ids from i_queue_ids[n]
-- to before the next one. Ten comparisons find one of a thousand queues; a list would take five
-- hundred.
create or replace function pgq.build_insert_tree(i_queue_ids int[], i_leaves text[])
returns text language plpgsql immutable strict as $$
declare
    v_half int := cardinality(i_queue_ids) / 2;
begin
    if cardinality(i_queue_ids) = 1 then
        return i_leaves[1];
    end if;
    return format(E'if v_queue < %s then\n%selse\n%send if;\n', i_queue_ids[v_half + 1],
        pgq.build_insert_tree(i_queue_ids[:v_half], i_leaves[:v_half]),
        pgq.build_insert_tree(i_queue_ids[v_half + 1:], i_leaves[v_half + 1:]));
end $$;
