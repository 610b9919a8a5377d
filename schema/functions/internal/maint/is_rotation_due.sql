-- Whether a queue's next rotation is due by the clock. A last rotation that lies in the future was
-- made before the clock was stepped back: the next one is due at once.
create or replace function pgq.is_rotation_due(q pgq.queue)
returns boolean language sql stable as $$
    select q.queue_switch_time + q.queue_rotates_after < now()
        or q.queue_switch_time > clock_timestamp()
$$;
