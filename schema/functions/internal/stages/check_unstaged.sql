-- Refuses a transaction that is a stage of the queue. A stage may be dropped, and then nobody gets
-- its events. A key that such an event took would keep away the event of the next caller. A delayed
-- event would come without commit_stage, because another transaction inserts it when it is due.
-- open_stage refuses the other order: a stage hides the events from before it too.
-- Raises: PQ009.
-- Takes no xid.
create or replace function pgq.check_unstaged(i_queue_id int)
returns void language plpgsql as $$
begin
    if exists (
            select from pgq.stage
             where stage_queue = i_queue_id and stage_time = now()
               and stage_txid = pg_current_xact_id_if_assigned()::text::bigint) then
        raise exception 'an event with a key or a delay cannot be part of a stage'
            using errcode = 'PQ009', hint = 'insert it in a transaction of its own';
    end if;
end $$;
