-- Functions of older versions that this one has no more, or under another signature.
--
-- Writes: drop function.
do $retire$
declare
    v_name regprocedure;
begin
    for v_name in
        select p.oid::regprocedure from pg_proc p
         where p.pronamespace = 'pgq'::regnamespace and p.proname ~ '^event_[0-9]+_insert$'
        union all
        select to_regprocedure(old) from unnest(array[
            'pgq.build_queue_insert(int)', 'pgq.build_insert_path()', 'pgq.build_insert_tree(int[], text)', 'pgq.build_insert_event(text, int[])',
            'pgq.move_position(int, bigint, bigint, bigint, bigint)', 'pgq.range_sql(text, txid_snapshot, txid_snapshot, int)',
            'pgq.range_sql(int, text, txid_snapshot, txid_snapshot, int)', 'pgq.tick_event_sql(text, bigint, bigint)',
            'pgq.commit_stage(text, text, bigint, uuid[], bigint)', 'pgq.commit_stage(text, text, bigint, bigint[], bigint)', 'pgq.create_stage(int)', 'pgq.clear_stage(int, boolean)',
            'pgq.insert_row(text, bigint, timestamptz, int, int, text, text, text, text, text, text)']) old
         where to_regprocedure(old) is not null
    loop
        execute format('drop function %s', v_name);
    end loop;
end
$retire$;
