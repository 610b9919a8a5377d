-- Finishes a subconsumer's batch, with the warning of PGQ's function.
-- Returns: 1; or 0 with a WARNING when the batch is not open.
-- Raises, writes: as pgq.finish_batch.
create or replace function pgq_coop.finish_batch(i_batch_id bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if (pgq.lock_batch(i_batch_id, true)).pos_sub is null then
        raise warning 'coop_finish_batch: batch % not found', i_batch_id;
        return 0;
    end if;
    return pgq.finish_batch(i_batch_id);
end $$;
comment on function pgq_coop.finish_batch is 'Finishes a batch: 1 done, 0 it was not open.';
