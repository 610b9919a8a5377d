-- The run of an event in flight. If there is none, it reads what is new before it looks again.
-- Returns: the run, not locked; null: the event is not in flight. It is done, or dead, or comes
--   later: of a large backlog, or in a piece.
-- Writes: as refill.
create or replace function pgq.find_run(s pgq.registration, i_id bigint)
returns pgq.inflight language plpgsql as $$
declare
    r pgq.inflight;
begin
    for v_round in 1 .. 2 loop
        select * into r from pgq.inflight where run_sub = s.sub_id and run_ids @> array[i_id]
         order by run_no limit 1;
        exit when found or v_round = 2;
        perform pgq.refill(s, 1, false, null);
    end loop;
    return r;
end $$;
