-- Function: pgq.open_stage(i_queue_name text, i_writer text, i_epoch bigint)
--
-- Names the table that a task of a writer fills, and makes it if there is none. Call it in a transaction of its own: while
-- that which makes the table is open, the writer's other tasks wait.
--
-- Each row is one piece of what a task writes: attempt (an id of the task's own), piece (which counts up), and arrays side
-- by side, one event an index. An array that is null stands for an array of nulls. A task that is tried again takes
-- another id: what the earlier attempt left behind is never read.
--
-- Parameters: i_writer: names what is written once: a Spark query, say. i_epoch: the part of it that is written now: they
--   go up, gaps are allowed; null: the writer writes once, and never comes back.
-- Returns: the qualified, quoted name; null: the epoch is committed already.
-- Raises: PQ001 No such queue; PQ006 Insert into queue disallowed; PQ009 no or a wrong name.
-- Writes: insert pgq.stage, or update of a row that is an hour old; as create_stage.
create or replace function pgq.open_stage(i_queue_name text, i_writer text, i_epoch bigint)
returns text language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    s pgq.stage;
begin
    perform pgq.check_name('writer', i_writer, 200);
    select * into q from pgq.queue where queue_name = i_queue_name;
    perform pgq.check_insert(i_queue_name, q.queue_id, q.queue_disable_insert, null, 0);
    if exists (select from pgq.ledger
                where ledger_queue = q.queue_id and ledger_writer = i_writer and (ledger_epoch >= i_epoch) is not false) then
        return null;
    end if;
    loop  -- a row that was there at the insert may be gone at the look after it
        select * into s from pgq.stage where stage_queue = q.queue_id and stage_writer = i_writer;
        exit when found;
        insert into pgq.stage (stage_queue, stage_writer) values (q.queue_id, i_writer)
        on conflict (stage_queue, stage_writer) do nothing returning * into s;
        if found then
            perform pgq.create_stage(s.stage_id);
            exit;
        end if;
    end loop;
    if s.stage_time < now() - interval '1 hour' then
        update pgq.stage set stage_time = now() where stage_id = s.stage_id;  -- maint_stages leaves it alone
    end if;
    return 'pgq.stage_' || s.stage_id;
end
$$;
comment on function pgq.open_stage(text, text, bigint) is 'Names the table that a task of a writer fills.';
