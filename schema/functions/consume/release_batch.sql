-- Takes the attempt of an open batch back: the process that counted it in open_batch ends in order,
-- and leaves the batch open. So the next one handles it as this one did.
-- Returns: 1; 0 if the batch is not open, or counts no attempts.
-- Raises: as lock_batch.
-- Writes: as lock_batch; update pgq.position.
create or replace function pgq.release_batch(x_batch_id bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, false);
begin
    update pgq.position set pos_attempts = pos_attempts - 1
     where pos_sub = p.pos_sub and pos_no = p.pos_no and pos_attempts > 0;
    return found::int;
end $$;
comment on function pgq.release_batch is 'Takes the attempt of an open batch back.';
