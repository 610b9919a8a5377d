-- Whether a lease has ended. One that lies further in the future than it is long was given before
-- the clock was stepped back: it has ended too. A worker that lives sends heartbeats, and each
-- begins the lease anew (touch_batch).
create or replace function pgq.lease_is_over(i_until timestamptz, i_active timestamptz)
returns boolean language sql as $$
    select i_until < clock_timestamp() or
           isfinite(i_until) and i_active - clock_timestamp() > i_until - i_active
$$;
