-- Decides how a consumer runs: plain (next_batch, one process) or shared (take_part, workers). Its
-- first run decides that by itself. A change needs that nobody runs it: no batch is open, and no
-- session holds the advisory lock of the consumer or of a subconsumer.
-- Parameters: i_mode: plain, shared, or null: the next run decides.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002 not a subscriber; PQ009 another mode; PQ020 it is a subconsumer; PQ021 it runs.
-- Writes: row locks and update pgq.registration.
create or replace function pgq.set_consumer_mode(
    i_queue_name text, i_consumer_name text, i_mode text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off as $$
declare
    r record;
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    if i_mode not in ('plain', 'shared') then
        raise exception 'no such mode: %', i_mode using errcode = 'PQ009',
            hint = 'plain: one process runs the consumer; shared: workers share it';
    end if;
    select sub_parent into r from pgq.registration where sub_id = v_sub for no key update;
    if r.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, 'subconsumer');
    end if;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for no key update;
    for r in
        select sub_id, pos_batch, pos_next_tick from pgq.current_position
         where v_sub in (sub_id, sub_parent) order by sub_id
    loop
        if r.pos_next_tick is not null
                or not pgq.holder_is_dead(r.sub_id, '', null, now(), null) then
            raise exception 'the consumer %/% is running', i_queue_name, i_consumer_name
                using errcode = 'PQ021', detail = coalesce('batch ' || r.pos_batch || ' is open',
                    case when r.pos_next_tick is not null then 'parts of a range are left' end,
                    format('a session holds the advisory lock (7366514, %s)', r.sub_id)),
                hint = 'stop it first; a run, or finish_batch, finishes an open batch';
        end if;
    end loop;
    update pgq.registration set sub_mode = i_mode
     where sub_id = v_sub and sub_mode is distinct from i_mode;
    return found::int;
end $$;
comment on function pgq.set_consumer_mode(text, text, text)
    is 'Decides whether one process or several workers run a consumer: 1 changed, 0 it was so.';
