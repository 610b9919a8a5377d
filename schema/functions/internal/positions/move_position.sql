-- Appends the position that follows x_pos_no. In READ COMMITTED the caller holds the registration's
-- row lock and has read the position after it, so no other session wrote one in between. The
-- snapshot of a REPEATABLE READ caller may be older: then the unique pos_no is taken, or
-- maint_positions has deleted it, with the rows before it: so row x_pos_no is locked, which fails
-- if it is gone.
-- Parameters: x_pins: the ticks to keep beside the position's own; the pins before are dropped.
--   The others: the columns of the same names, see pgq.position. A parameter that is left out is
--   null in the new row: pass what the move keeps. x_moved: null: now, as the move is progress.
-- Raises: 40001, another session moved this position; roll back and call again.
-- Writes: insert pgq.position; outside READ COMMITTED a row lock there, too.
create or replace function pgq.move_position(
    x_sub_id int, x_pos_no bigint, x_last_tick bigint, x_next_tick bigint, x_batch bigint,
    x_pins bigint[] default null, x_from bigint default null, x_moved timestamptz default null,
    x_attempts int default null)
returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        if x_batch is null then
            perform from pgq.position where pos_sub = x_sub_id and pos_no = x_pos_no for key share;
        else
            -- The new row copies columns that open_batch updates in place. KEY SHARE passes over
            -- such an update; this lock fails if there was one since the snapshot.
            perform from pgq.position where pos_sub = x_sub_id and pos_no = x_pos_no
                for no key update;
        end if;
    end if;
    insert into pgq.position (
        pos_sub, pos_no, pos_last_tick, pos_next_tick, pos_batch, pos_active, pos_pins,
        pos_from, pos_moved, pos_attempts)
    values (x_sub_id, x_pos_no + 1, x_last_tick, x_next_tick, x_batch, clock_timestamp(), x_pins,
        x_from, coalesce(x_moved, clock_timestamp()), x_attempts)
    on conflict (pos_sub, pos_no) do nothing;
    if not found then
        raise exception 'another session moved the position of this consumer'
            using errcode = '40001', hint = 'roll back and call again';
    end if;
end $$;
