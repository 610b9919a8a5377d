-- The arguments of a trigger, from pg_trigger.tgargs: texts, each with a zero byte at its end.
create or replace function pgq.trigger_args(i_args bytea)
returns text[] language plpgsql immutable as $$
declare
    v_args text[] := '{}';
    v_rest bytea := i_args;
    v_end int;
begin
    loop
        v_end := position(decode('00', 'hex') in v_rest);
        exit when v_end = 0;
        v_args := v_args || convert_from(substring(v_rest from 1 for v_end - 1), 'UTF8');
        v_rest := substring(v_rest from v_end + 1);
    end loop;
    return v_args;
end $$;
