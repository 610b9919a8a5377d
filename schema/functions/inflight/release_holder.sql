-- Returns the events that a process has claimed, to be claimed again at once; no attempt and no
-- crash counts. A process that ends returns all claims. After the loss of a session, it returns the
-- claims that it does not know: the answer of a claim may be lost with the session.
-- Parameters: i_holder: its number, from hold. i_but: the tokens of claims that it keeps; null: it
--   ends, and is no holder any more.
-- Returns: how many events.
-- Raises: PQ013.
-- Writes: delete pgq.holder; as return_runs.
create or replace function pgq.release_holder(i_holder int, i_but bigint[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s pgq.registration;
    v_token bigint;
    v_count int := 0;
begin
    perform pgq.check_claim(1, '1 second');
    select r.* into s
      from pgq.holder join pgq.registration r on sub_id = holder_sub where holder_id = i_holder;
    for v_token in
        select distinct run_token from pgq.inflight
         where run_sub = s.sub_id and run_token > 0 and run_holder = i_holder
           and (i_but is null or run_token <> all (i_but))
         order by run_token
    loop
        v_count := v_count + pgq.return_runs(s, v_token, null, '0', true, false);
    end loop;
    delete from pgq.holder where i_but is null and holder_id = i_holder;
    return v_count;
end $$;
comment on function pgq.release_holder is 'Returns what a process has claimed.';
