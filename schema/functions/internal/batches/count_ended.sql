-- Tells which of the runs that count against an event have ended. A run that sent no heartbeat
-- loses its range, and count_end counts it. But its process lives as long as its session has the
-- advisory lock of the run (lock_number): the server may have refused the second connection for
-- its heartbeats, or the process is stopped. Such a run counts only after the end of its session,
-- and not while it has a new session. The lock is tried and released at once, as in holder_is_dead.
-- Parameters: i_tries, i_died: pos_tries and pos_died, see pgq.position.
-- Returns: both without the runs that have not ended.
create or replace function pgq.count_ended(
    i_tries int, i_died text[], out tries int, out died text[])
language plpgsql as $$
begin
    tries := i_tries;
    died := i_died;
    if i_died <> '{}' then
        died := array(
            select run from unnest(i_died) run
             where case when pg_try_advisory_lock(pgq.lock_number('run'), hashtext(run))
                       then pg_advisory_unlock(pgq.lock_number('run'), hashtext(run))
                       else false end);
        tries := nullif(greatest(i_tries - cardinality(i_died) + cardinality(died), 0), 0);
    end if;
end $$;
