-- Makes the parts of a consumer in careful mode larger by one step: 1, 30, 1,000 events, whole
-- batches. A run calls it when many parts in a row went well, or if it gets whole batches anyway.
-- That is no progress of the open batch: pos_moved stays, and pos_died still tells that a run died
-- with it.
-- Returns: the size of parts from now on; null: whole batches. Nothing changes if another run has
--   begun meanwhile.
-- Raises: PQ002 not a subscriber; PQ013, PQ020 as lock_subscription.
-- Writes: as lock_subscription; insert pgq.position.
create or replace function pgq.widen_run(i_queue_name text, i_consumer_name text, i_holder text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_subscription(i_queue_name, i_consumer_name, true);
    v_part int := case when p.pos_part < 30 then 30 when p.pos_part < 1000 then 1000 end;
begin
    if p.pos_part is null or p.pos_holder is distinct from i_holder then
        return p.pos_part;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        p.pos_pins, p.pos_from, p.pos_done, p.pos_holder, v_part,
        x_until => p.pos_until, x_to => p.pos_to, x_ids => p.pos_ids,
        x_died => case when p.pos_died is not null then '{}'::text[] end,
        x_moved => p.pos_moved);
    return v_part;
end $$;
comment on function pgq.widen_run is 'Makes the parts of a consumer in careful mode larger.';
