-- Finishes the events of an open batch up to an id, x_up_to, and those in x_done. Later reads of
-- the batch do not return them. The batch stays open until finish_batch. Events with the same id
-- (an event and its retried copy) are finished together.
--
-- In the transaction that processes the events, it makes each event's effect happen once (G9), if
-- x_pos_no is given: of two sessions that read the same part, the second one waits for the first,
-- and would then finish what is finished.
--
-- The ids of a batch are not checked one by one. Its end tick holds a number that no id exceeds,
-- unless a program wrote a larger id into the tables itself. Only then are the events read. The
-- events of a batch of take_parked are not in the order of their ids: see finish_parked_part.
-- Parameters: x_up_to: null leaves the id up to which it is finished. x_done: ids beyond
--   x_up_to that were finished out of order. With those of earlier calls, the 1,000 lowest are
--   kept; the events of others are delivered again. Empty, without x_up_to: nothing is finished,
--   and the position moves on (check_position). x_pos_no: the pos_no of current_position, read
--   before the events were; each finish_part adds one. Null: any.
-- Returns: 1; or 0 with a WARNING when the batch is not open (finished before, or taken away), or
--   another session has moved the position.
-- Raises: PQ009 backwards, an id beyond the batch, or a NULL id; 40001 in REPEATABLE READ, another
--   session moved the position or extended the lease, or as check_snapshot; PQ012, 42501 as
--   batch_event_sql, if an id lies beyond the end tick's.
-- Writes: row lock pgq.registration; insert pgq.position; as check_snapshot; as batch_event_sql in
--   that case.
create or replace function pgq.finish_part(
    x_batch_id bigint, x_up_to bigint, x_done bigint[] default null, x_pos_no bigint default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, true);
    v_from bigint;
    v_done bigint[];
    v_last bigint;
    v_inside boolean;
begin
    if p.pos_sub is null then
        raise warning 'finish_part: batch % not found', x_batch_id;
        return 0;
    elsif x_pos_no <> p.pos_no then
        raise warning 'finish_part: another session works on batch %', x_batch_id;
        return 0;
    elsif x_up_to is null and x_done is null or array_position(x_done, null) is not null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'name the id up to which events are finished';
    elsif x_up_to < p.pos_from then
        raise exception 'the events of batch % up to % are finished already', x_batch_id, p.pos_from
            using errcode = 'PQ009',
            hint = format('%s lies before: what is finished stays finished', x_up_to);
    end if;
    if p.pos_last_tick = p.pos_next_tick then
        perform pgq.finish_parked_part(p, x_up_to, x_done);
        return 1;
    end if;
    v_from := coalesce(x_up_to, p.pos_from);
    v_last := x_up_to;
    if x_done is not null or p.pos_done is not null then  -- seldom, and queries of arrays cost time
        v_done := array(select distinct id from unnest(p.pos_done || x_done) id
                         where id > v_from or v_from is null order by id limit 1000);
        v_last := greatest(x_up_to, (select max(id) from unnest(x_done) id));
    end if;
    if v_last > p.pos_to then
        raise exception 'event % lies beyond batch %', v_last, x_batch_id
            using errcode = 'PQ009', hint = 'name an event of the batch';
    elsif v_last > (select tick_event_seq from pgq.tick
                     where tick_id = p.pos_next_tick and tick_queue = (
                           select sub_queue from pgq.registration where sub_id = p.pos_sub)
                     limit 1) then
        execute format('select exists (select from (%s) e where ev_id >= $1)',
            pgq.batch_event_sql(x_batch_id)) into v_inside using v_last;
        if not v_inside then
            raise exception 'event % lies beyond batch %', v_last, x_batch_id
                using errcode = 'PQ009', hint = 'name an event of the batch';
        end if;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        x_from => v_from, x_done => nullif(v_done, '{}'),
        x_holder => p.pos_holder, x_part => p.pos_part,
        x_tries => case when v_from is not distinct from p.pos_from then p.pos_tries end,
        x_died => case when v_from is not distinct from p.pos_from then p.pos_died end,
        x_until => p.pos_until, x_to => p.pos_to, x_ids => p.pos_ids,
        x_moved => case when x_up_to is null and x_done = '{}' then p.pos_moved end);
    return 1;
end $$;
comment on function pgq.finish_part is 'Finishes a batch up to an id: 1 done, 0 it was not open.';
