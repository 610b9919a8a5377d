-- Raises the error for a caller that uses the name of another worker, which lives.
-- Parameters: w: the worker's subconsumer.
-- Raises: PQ021, always.
create or replace function pgq.raise_worker_lives(w pgq.current_position)
returns void language plpgsql as $$
begin
    raise exception 'another worker has this subconsumer' using errcode = 'PQ021',
        detail = format('subscription %s, holder %s', w.sub_id, coalesce(w.pos_holder, 'unknown')),
        hint = 'give each worker a subconsumer of its own';
end $$;
