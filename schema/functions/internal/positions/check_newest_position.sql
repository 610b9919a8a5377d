-- Writes a position for trial, to refuse a REPEATABLE READ or SERIALIZABLE transaction that sees an
-- older position as the newest one. The caller holds the registration's row lock, but its snapshot
-- may be older than the position that the previous holder wrote. If the pos_no of the trial row is
-- taken, or the log was trimmed meanwhile, move_position raises. Then the trial row is deleted,
-- which costs a dead row in those isolation levels only. A caller that moves the position itself
-- needs no trial.
-- Raises: 40001, another session moved the position.
-- Writes: insert and delete pgq.position, in those isolation levels.
create or replace function pgq.check_newest_position(p pgq.position)
returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, null, null);
        delete from pgq.position where pos_sub = p.pos_sub and pos_no = p.pos_no + 1;
    end if;
end $$;
