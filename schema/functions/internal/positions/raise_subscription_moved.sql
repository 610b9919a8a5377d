-- Raises the error for a subscription that another session uses: it has an open batch, or is not at
-- the tick that the caller gave.
-- Raises: PQ017; the detail has the subscription's tick.
create or replace function pgq.raise_subscription_moved(
    i_queue_name text, i_consumer_name text, p pgq.position, i_from_tick bigint)
returns void language plpgsql as $$
begin
    raise exception using errcode = 'PQ017',
        message = case when p.pos_batch is not null
            then format('a batch of the subscription %s/%s is open', i_queue_name, i_consumer_name)
            else format('the subscription %s/%s is at tick %s, not at %s',
                i_queue_name, i_consumer_name, p.pos_last_tick, i_from_tick) end,
        detail = format('tick_id=%s', p.pos_last_tick),
        hint = 'somebody else uses this consumer: give each reader a consumer of its own';
end $$;
