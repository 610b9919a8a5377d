-- Refuses to change the mode of a consumer that runs: it or a subconsumer has a range, or a session
-- holds an advisory lock of theirs. The caller has locked them. One with parked events is refused
-- too: in another mode nobody takes them.
-- Raises: PQ021.
create or replace function pgq.check_idle(i_sub_id int, i_queue_name text, i_consumer_name text)
returns void language plpgsql as $$
declare
    r record;
begin
    for r in
        select sub_id, pos_batch, pos_next_tick from pgq.current_position
         where i_sub_id in (sub_id, sub_parent) order by sub_id
    loop
        if r.pos_next_tick is not null
                or not pgq.holder_is_dead(r.sub_id, '', null, now(), null) then
            raise exception 'the consumer %/% is running', i_queue_name, i_consumer_name
                using errcode = 'PQ021', detail = coalesce('batch ' || r.pos_batch || ' is open',
                    case when r.pos_next_tick is not null then 'parts of a range are left' end,
                    format('a session holds the advisory lock (%s, %s)',
                        pgq.lock_number('consumer'), r.sub_id)),
                hint = 'stop it first; a run, or finish_batch, finishes an open batch';
        end if;
    end loop;
    if exists (select from pgq.parked where ev_owner = i_sub_id) then
        raise exception 'events of the consumer %/% are parked', i_queue_name, i_consumer_name
            using errcode = 'PQ021', detail = 'in another mode nobody takes them',
            hint = 'run it until they are handled, or delete them: pgq.delete_parked';
    end if;
end $$;
