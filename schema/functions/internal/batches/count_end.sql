-- Counts the end of the holder of a range, for the worker that takes the range over.
--
-- A worker that had not released the range (end_run) had a crash: see narrow_part. A worker that
-- lost its session looks dead, and comes back under the same token a moment later. So the tokens of
-- what counts against an event are kept (pos_died), each once: see uncount_end.
-- Parameters: d: the range.
-- Returns: the range, with pos_part, pos_tries and pos_died as they are from now on.
create or replace function pgq.count_end(d pgq.current_position)
returns pgq.current_position language plpgsql as $$
begin
    if d.pos_holder is not null then
        if d.pos_part is distinct from 1 or d.pos_holder <> all (coalesce(d.pos_died, '{}')) then
            d.pos_died := coalesce(d.pos_died, '{}')
                || case when d.pos_part = 1 then array[d.pos_holder] end;
            select n.part_size, n.tries into d.pos_part, d.pos_tries
              from pgq.narrow_part(d.pos_part, d.pos_tries) n;
        end if;
    end if;
    return d;
end $$;
