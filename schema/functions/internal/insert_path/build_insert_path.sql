-- Generates the functions that insert events. The caller holds the advisory lock of create_queue.
--
-- With few queues, insert_event serves them all itself: a function call costs a tenth of an event.
-- PL/pgSQL reads a function whole when it is first called in a session: 1,000 queues took 60 ms. So
-- many queues are spread over functions insert_group_N by their ids, 64 a group.
--
-- A session learns of a new version of a function when it next takes a lock that it does not hold
-- yet. In the middle of a transaction that may be never: the session sees the queue's row, but runs
-- a tree without the queue, or without its newest table. Such an insert falls through the tree to
-- insert_row. A group is never dropped, because an older insert_event may still call it.
-- Parameters: i_queue_id: the queue that has changed; null: all may have.
-- Writes: create function.
create or replace function pgq.build_insert_path(i_queue_id int) returns void language plpgsql as $$
declare
    c_few constant int := 64;  -- queues that insert_event serves itself
    v_groups int[];
    v_known int[] := array(
        select substr(proname, 14)::int from pg_proc
         where pronamespace = 'pgq'::regnamespace and proname ~ '^insert_group_[0-9]+$');
begin
    if (select count(*) > c_few from pgq.queue) then
        v_groups := array(select distinct queue_id / 64 from pgq.queue order by 1);
    end if;
    perform pgq.build_insert_group(g) from unnest(v_groups) g where g <> all (v_known);
    perform pgq.build_insert_group(g)
       from unnest(v_known) g where i_queue_id is null or g = i_queue_id / 64;
    perform pgq.build_insert_event('ev_type, ev_data', v_groups, i_queue_id is null);
    perform pgq.build_insert_event('ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4',
        v_groups, i_queue_id is null);
end $$;
