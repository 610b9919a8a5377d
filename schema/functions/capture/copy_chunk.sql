-- Copies the rows of some blocks of a captured table as events: docs/capture.md says why consumers
-- then have each row between the right changes. Call it in a transaction of its own; pgqpy capture
-- snapshot does all of this:
--
-- 1. reserve_event_ids, in an earlier transaction;
-- 2. wait until no transaction holds the lock of a writer on the table that held it then;
-- 3. copy_chunk, for one range of blocks after another; of a partitioned table, for each partition.
--
-- From the snapshot that it reads with until it commits, nobody ticks, and no shared consumer takes
-- a snapshot: such a cut could see a change that the rows lack, and not yet the rows, which would
-- then come after it. It locks the table before that snapshot: an older one would see a table as
-- empty that was rewritten since.
--
-- It has its caller's rights. Where row-level security would hide rows, it fails.
-- Parameters: i_block: the first, from 0. i_ids: as reserve_event_ids returned them, or the last
--   chunk left them. i_key: the key's columns, as get_captures has them.
-- Returns: rows; ids: those that are left; blocks: how many the table has now; filenode: another
--   one than before: the table was rewritten or truncated, so begin with block 0 again.
-- Raises: 42501; as hold_cuts, insert_chunk.
-- Writes: ACCESS SHARE lock on the table; as hold_cuts, insert_chunk.
create or replace function pgq.copy_chunk(
    i_queue_name text, i_table regclass, i_key text[], i_block bigint, i_blocks int,
    i_ids int8multirange,
    out rows int, out ids int8multirange, out blocks bigint, out filenode oid)
language plpgsql set search_path = pg_catalog, pg_temp set row_security = off as $$
declare
    c_last constant bigint := 4294967295;  -- block
    v_datas text[];
    v_keys text[];
begin
    execute format('lock table only %s in access share mode', i_table);
    perform pgq.hold_cuts(i_queue_name);
    execute format('select datas, keys from pgq.capture_rows((select array_agg(r) from only %s r '
        'where ctid >= $1 and ctid < $2), $3)', i_table)
        into v_datas, v_keys using format('(%s,0)', i_block)::tid,
            format('(%s,0)', least(i_block + i_blocks, c_last))::tid, i_key;
    -- Users' casts have run. One can have changed search_path, for the rest of this function and
    -- for the caller.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog, pg_temp' then
        raise exception 'a cast to json changes search_path' using errcode = '42501';
    end if;
    rows := coalesce(cardinality(v_datas), 0);
    ids := case when rows = 0 then i_ids else pgq.insert_chunk(i_queue_name,
        coalesce(pg_partition_root(i_table), i_table), i_key, v_datas, v_keys, i_ids) end;
    blocks := pg_relation_size(i_table) / current_setting('block_size')::int;
    filenode := pg_relation_filenode(i_table);
end $$;
comment on function pgq.copy_chunk is 'Copies rows of a captured table as events.';
