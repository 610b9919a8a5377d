-- Function: pgq.check_newest_position(p pgq.position)
--
-- Refuses a REPEATABLE READ or SERIALIZABLE transaction that takes an older position for the newest. The caller holds the
-- registration's row lock, but its snapshot may be older than what the previous owner wrote. So the next pos_no is tried:
-- if it is taken, or the log was trimmed meanwhile, move_position raises. The trial is taken back at once; that costs a
-- dead row, in those isolation levels only. Who moves the position itself needs no trial.
--
-- Raises: 40001, somebody else moved the position.
-- Writes: insert and delete pgq.position, in those isolation levels.
create or replace function pgq.check_newest_position(p pgq.position)
returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, null, null);
        delete from pgq.position where pos_sub = p.pos_sub and pos_no = p.pos_no + 1;
    end if;
end
$$;
comment on function pgq.check_newest_position(pgq.position) is 'Refuses a transaction that does not see the newest position.';
