-- Checks that a batch is open at the position at which it was read. A pooler may hide a failover:
-- on a standby that lagged, the batch is open, but the caller's earlier writes are missing, and
-- finish_batch would lose the failures among them. So the caller checks the position first, in each
-- transaction that writes for the batch. It takes no lock: the call that finishes does.
-- Parameters: x_pos_no: the pos_no of the position (current_position), read before the events were.
--   Each finish_part adds one.
-- Raises: PQ003 no batch is open at this position; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.check_position(x_batch_id bigint, x_pos_no bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.check_snapshot();
    end if;
    if not exists (
            select from (
                select pos_sub, pos_no from pgq.position
                 where pos_batch = x_batch_id order by pos_no desc limit 1) p
             where p.pos_no = x_pos_no and not exists (
                    select from pgq.position n
                     where n.pos_sub = p.pos_sub and n.pos_no = p.pos_no + 1)) then
        raise exception 'batch % is not at position % any more', x_batch_id, x_pos_no
            using errcode = 'PQ003', hint = 'read it again';
    end if;
end $$;
comment on function pgq.check_position is 'Checks that a batch is open at a position.';
