-- Raises the error for a missing queue: the one wording of all functions.
-- Raises: PQ001, always.
create or replace function pgq.raise_queue_not_found(i_queue_name text)
returns void language plpgsql as $$
begin
    raise exception 'No such queue' using errcode = 'PQ001',
        detail = format('queue %s', i_queue_name),
        hint = format('select pgq.create_queue(%L)', i_queue_name);
end $$;
