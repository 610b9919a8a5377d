-- What an application may do whose write fails because its table is captured: the error is one of
-- an insert of events, which the application did not make.
-- Returns: the hint; null outside pgq.capture.
create or replace function pgq.capture_hint()
returns text language plpgsql as $$
declare
    v_stack text;
begin
    get diagnostics v_stack = pg_context;
    return case when v_stack like '%function pgq.capture()%' then 'the trigger "!pgq_capture" of '
        'the table inserts it: see pgqpy capture list; pgqpy capture remove TABLE ends that' end;
end $$;
