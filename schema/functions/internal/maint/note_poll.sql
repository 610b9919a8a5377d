-- Stores a poll for due rows in the session: see poll_setting.
--
-- A snapshot does not list its own transaction, which may still insert rows: it counts as not seen.
-- The clock may have been stepped back since the poll before: then the time goes back with it.
-- Parameters: i_setting: from poll_setting. i_snapshot: taken before the poll. i_left: transactions
--   whose rows are to be read again, because a row was locked.
-- Writes: the session's setting pgq.due_seen_<file>.
create or replace function pgq.note_poll(
    i_setting text, i_snapshot txid_snapshot, i_left bigint[] default '{}')
returns void language plpgsql as $$
declare
    v_own constant bigint := pg_current_xact_id_if_assigned()::text::bigint;
begin
    perform set_config(i_setting, concat_ws('|', now(), txid_snapshot_xmax(i_snapshot), array(
        select txid_snapshot_xip(i_snapshot)
        union select unnest(i_left)
        union select v_own where v_own is not null)::text), false);
end $$;
