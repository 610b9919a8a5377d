-- Finishes the events of an open batch up to an id. Later reads of the batch do not return them.
-- The batch stays open until finish_batch. Events with the same id (an event and its retried copy)
-- are finished together.
--
-- In the transaction that processes the events, it makes each event's effect happen once (G9), if
-- x_pos_no is given: of two sessions that read the same part, the second one waits for the first,
-- and would then finish what is finished.
--
-- The batch's end tick holds a number that no id exceeds, unless a program wrote a larger id into
-- the tables itself. Only then are the events read.
-- Parameters: x_pos_no: the pos_no of current_position, read before the events were; each
--   finish_part adds one. Null: any. x_attempts: the attempts of what is first now: see open_batch.
--   Null: as they are.
-- Returns: 1; or 0 with a WARNING when the batch is not open (finished before, or taken away), or
--   another session has moved the position.
-- Raises: PQ009 backwards, an id beyond the batch, or a NULL id; 40001 in REPEATABLE READ, another
--   session moved the position, or as check_snapshot; PQ012, 42501 as batch_event_sql, if an id
--   lies beyond the end tick's.
-- Writes: row lock pgq.registration; insert pgq.position; as check_snapshot; as batch_event_sql in
--   that case.
create or replace function pgq.finish_part(
    x_batch_id bigint, x_up_to bigint, x_pos_no bigint default null, x_attempts int default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, true);
    v_inside boolean;
begin
    if p.pos_sub is null then
        raise warning 'finish_part: batch % not found', x_batch_id;
        return 0;
    elsif x_pos_no <> p.pos_no then
        raise warning 'finish_part: another session works on batch %', x_batch_id;
        return 0;
    elsif x_up_to is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'name the id up to which events are finished';
    elsif x_up_to < p.pos_from then
        raise exception 'the events of batch % up to % are finished already', x_batch_id, p.pos_from
            using errcode = 'PQ009',
            hint = format('%s lies before: what is finished stays finished', x_up_to);
    elsif x_up_to > (select tick_event_seq from pgq.tick
                      where tick_id = p.pos_next_tick and tick_queue = (
                            select sub_queue from pgq.registration where sub_id = p.pos_sub)
                      limit 1) then
        execute format('select exists (select from (%s) e where ev_id >= $1)',
            pgq.batch_event_sql(x_batch_id)) into v_inside using x_up_to;
        if not v_inside then
            raise exception 'event % lies beyond batch %', x_up_to, x_batch_id
                using errcode = 'PQ009', hint = 'name an event of the batch';
        end if;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        x_from => x_up_to, x_attempts => coalesce(x_attempts, p.pos_attempts));
    return 1;
end $$;
comment on function pgq.finish_part is 'Finishes a batch up to an id: 1 done, 0 it was not open.';
