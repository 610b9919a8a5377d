-- Inserts a delayed event. The caller has called check_delayed.
-- Writes: insert pgq.delayed_event.
create or replace function pgq.insert_delayed(
    i_queue_id int, x_id bigint, i_deliver_at timestamptz, x_type text, x_data text, x_extra1 text,
    x_extra2 text, x_extra3 text, x_extra4 text)
returns void language plpgsql as $$
begin
    insert into pgq.delayed_event (ev_deliver_at, ev_queue, ev_id, ev_time, ev_txid,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    values (i_deliver_at, i_queue_id, x_id, now(), txid_current(),
        x_type, x_data, x_extra1, x_extra2, x_extra3, x_extra4);
end $$;
