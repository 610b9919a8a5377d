-- Locks the consumers of a queue, or one of them, as next_batch locks them. So what they have does
-- not change until the transaction ends.
--
-- A transactional consumer may hold its lock for long. While this session waits for it, the others
-- must not stand still. So a lock that is not free soon is waited for first, and then all others
-- are tried. Only locks that were busy before are held while waiting, in the order of sub_id.
-- Parameters: i_sub: the consumer; null: all.
-- Raises: 55P03 by the caller's lock_timeout, or after ten seconds if it is 0.
-- Writes: row locks pgq.registration.
create or replace function pgq.lock_consumers(i_queue_id int, i_sub int)
returns void language plpgsql as $$
declare
    c_soon constant text := '10ms';
    c_longest constant text := '10s';  -- the one that waits may be the caller, on another session
    v_timeout constant text := current_setting('lock_timeout');
    v_busy int[] := '{}';
    v_waits boolean;
    v_sub int;
begin
    loop
        begin
            v_waits := true;
            perform set_config(
                'lock_timeout', case v_timeout when '0' then c_longest else v_timeout end, true);
            foreach v_sub in array v_busy loop
                perform from pgq.registration where sub_id = v_sub for no key update;
            end loop;
            v_waits := false;
            perform set_config('lock_timeout', c_soon, true);
            for v_sub in
                select sub_id from pgq.registration
                 where sub_queue = i_queue_id and sub_parent is null
                   and (i_sub is null or sub_id = i_sub) order by sub_id
            loop
                perform from pgq.registration where sub_id = v_sub for no key update;
            end loop;
            perform set_config('lock_timeout', v_timeout, true);
            return;
        exception when lock_not_available then
            if v_waits then
                raise;
            end if;
            v_busy := array(select distinct sub from unnest(v_busy || v_sub) sub order by sub);
        end;
    end loop;
end $$;
