-- Raises the error for a missing queue: the one wording of all functions.
-- Raises: PQ001, or PQ026 as raise_if_renamed.
create or replace function pgq.raise_queue_not_found(i_queue_name text)
returns void language plpgsql as $$
begin
    perform pgq.raise_if_renamed(i_queue_name);
    raise exception 'No such queue' using errcode = 'PQ001',
        detail = format('queue %s', i_queue_name),
        hint = coalesce(
            pgq.capture_hint(), format('select pgq.create_queue(%L)', i_queue_name));
end $$;
