-- The parts of a look: see look_setting.
-- Parameters: i_look: as note_look wrote it; null or empty: there was none yet.
-- Returns: seen_from: its time; -infinity: none. seen_xmax, seen_xip: it did not see the
--   transactions from seen_xmax on, and those in seen_xip.
-- Writes: nothing.
create or replace function pgq.parse_look(
    i_look text, out seen_from timestamptz, out seen_xmax bigint, out seen_xip bigint[])
language plpgsql as $$
declare
    v_parts constant text[] := string_to_array(nullif(i_look, ''), '|');
begin
    seen_from := coalesce(v_parts[1], '-infinity');
    seen_xmax := v_parts[2];
    seen_xip := v_parts[3];
end $$;
