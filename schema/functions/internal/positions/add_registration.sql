-- Finds the registration of a name on a queue, or adds it, without a position. The registration is
-- locked before the name, as unregister_consumer does, which deletes unused names.
--
-- A caller that moves the consumer locks it for update, as seek_consumer does: replay_events holds
-- a key share lock while it asks for the position. A caller that took the weaker lock first and the
-- stronger one later could deadlock with a session that waits for the weaker one.
-- Parameters: i_parent: the sub_parent of a new registration. i_moves: the caller moves it.
-- Returns: the registration, locked; is_new: it was added.
-- Writes: row lock pgq.registration, pgq.consumer; insert pgq.consumer, pgq.registration.
create or replace function pgq.add_registration(
    i_queue_id int, i_name text, i_parent int, i_moves boolean default false, out sub_id int,
    out sub_parent int, out sub_mode text, out is_new boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    v_consumer int;
begin
    is_new := false;
    loop
        if i_moves then
            select s.sub_id, s.sub_parent, s.sub_mode into sub_id, sub_parent, sub_mode
              from pgq.registration s
              join pgq.consumer c on c.co_id = s.sub_consumer
             where s.sub_queue = i_queue_id and c.co_name = i_name
               for update of s;
        else
            select s.sub_id, s.sub_parent, s.sub_mode into sub_id, sub_parent, sub_mode
              from pgq.registration s
              join pgq.consumer c on c.co_id = s.sub_consumer
             where s.sub_queue = i_queue_id and c.co_name = i_name
               for no key update of s;
        end if;
        exit when found;
        select co_id into v_consumer from pgq.consumer where co_name = i_name for key share;
        if not found then
            insert into pgq.consumer (co_name) values (i_name) on conflict do nothing;
        else
            insert into pgq.registration (sub_queue, sub_consumer, sub_parent)
            values (i_queue_id, v_consumer, i_parent) on conflict do nothing;
            is_new := found;
        end if;
    end loop;
end $$;
