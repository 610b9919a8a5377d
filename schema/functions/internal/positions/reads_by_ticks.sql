-- Whether a subscription reads ranges of ticks, as the Spark source does, and no batches. Its
-- position has pins then, if only the empty array: see advance_subscription.
-- Parameters: p: the position of a consumer, of no worker or lane.
create or replace function pgq.reads_by_ticks(p pgq.current_position)
returns boolean language sql immutable as $$
    select p.pos_pins is not null
$$;
