-- A snapshot that does not see the calling transaction. txid_current_snapshot does not list its own
-- transaction among those in progress, so it may count what that one writes later as seen.
-- Writes: the transaction gets an xid.
create or replace function pgq.exclude_own_xid(i_snapshot txid_snapshot)
returns txid_snapshot language sql as $$
    select case when txid_current() >= txid_snapshot_xmin(i_snapshot)
                 and txid_visible_in_snapshot(txid_current(), i_snapshot)
        then concat_ws(':', txid_snapshot_xmin(i_snapshot), txid_snapshot_xmax(i_snapshot), (
            select string_agg(x::text, ',' order by x)
              from (select txid_snapshot_xip(i_snapshot) union select txid_current()) xip (x)
            ))::txid_snapshot
        else i_snapshot end
$$;
