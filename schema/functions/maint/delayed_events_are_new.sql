-- Whether delayed events were committed since this session's last move_delayed_events. A ticker
-- asks after each tick: the question costs a tenth of a move.
create or replace function pgq.delayed_events_are_new()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    poll record;
begin
    poll := pgq.parse_poll(current_setting(pgq.poll_setting('delayed_event'), true));
    return poll.seen_xmax is null
        or exists (select from pgq.delayed_event where ev_txid >= poll.seen_xmax)
        or exists (select from pgq.delayed_event where ev_txid = any (poll.seen_xip));
end $$;
comment on function pgq.delayed_events_are_new is 'Whether delayed events came since a move.';
