-- The parts of a poll: see poll_setting.
--
-- Transactions that are in progress are left out: nobody sees their rows, and a search by their ids
-- would read them all. The caller's snapshot is older than this one, so note_poll stores them
-- again. The own transaction is in no list of its snapshot: it is visible, or from seen_xmax on.
-- Parameters: i_poll: as note_poll wrote it; null or empty: there was none yet.
-- Returns: seen_from: its time; -infinity: none. seen_xmax, seen_xip: it did not see the
--   transactions from seen_xmax on, and those in seen_xip, which have ended.
create or replace function pgq.parse_poll(
    i_poll text, out seen_from timestamptz, out seen_xmax bigint, out seen_xip bigint[])
language plpgsql as $$
declare
    v_parts constant text[] := string_to_array(nullif(i_poll, ''), '|');
    v_now constant txid_snapshot := txid_current_snapshot();
begin
    seen_from := coalesce(v_parts[1], '-infinity');
    seen_xmax := v_parts[2];
    seen_xip := v_parts[3];
    if seen_xip <> '{}' then
        seen_xip := array(
            select xid from unnest(seen_xip) xid where txid_visible_in_snapshot(xid, v_now));
    end if;
end $$;
