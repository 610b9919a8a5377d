-- Function: pgq.set_queue_config(x_queue_name text, x_param_name text, x_param_value text)
--
-- Sets one parameter of a queue. PGQ's: ticker_max_count, ticker_max_lag, ticker_idle_period,
-- ticker_paused, rotation_period, external_ticker. Others: per_tx_limit (empty: none),
-- disable_insert, ntables (only up), extra_maint (an array of functions that take the queue's
-- name).
--
-- Returns: 1.
-- Raises: PQ009 NULL or an invalid value; PQ001; PQ010 unknown parameter.
-- Writes: update pgq.queue; for ntables the advisory lock of create_queue, create table and
--   function.
create or replace function pgq.set_queue_config(x_queue_name text, x_param_name text, x_param_value text)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_known constant text[] := array['ticker_max_count', 'ticker_max_lag', 'ticker_idle_period', 'ticker_paused',
        'rotation_period', 'external_ticker', 'per_tx_limit', 'disable_insert', 'ntables', 'extra_maint'];
    v_type text;
begin
    if x_queue_name is null or x_param_name is null or x_param_value is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009';
    end if;
    perform pg_advisory_xact_lock(7366513, 2);
    perform from pgq.queue where queue_name = x_queue_name for update;
    if not found then
        perform pgq.raise_queue_not_found(x_queue_name);
    end if;
    if x_param_name <> all (v_known) then
        raise exception 'cannot change parameter "%"', x_param_name using errcode = 'PQ010',
            hint = 'parameters: ' || array_to_string(v_known, ', ');
    end if;
    if x_param_name = 'ntables' then
        perform pgq.add_event_tables(x_queue_name, x_param_value);
        return 1;
    elsif x_param_name = 'extra_maint' then
        perform pgq.check_extra_maint(x_param_value);
    end if;
    select format_type(atttypid, atttypmod) into v_type from pg_attribute
     where attrelid = 'pgq.queue'::regclass and attname = 'queue_' || x_param_name;
    begin
        execute format('update pgq.queue set %I = %L where queue_name = %L',
            'queue_' || x_param_name, nullif(x_param_value, ''), x_queue_name);
    exception when data_exception or integrity_constraint_violation then
        raise exception 'invalid value "%" for parameter "%"', x_param_value, x_param_name using errcode = 'PQ009',
            detail = sqlerrm, hint = coalesce(
                (select 'the parameter is ' || obj_description(oid, 'pg_constraint') from pg_constraint
                  where conrelid = 'pgq.queue'::regclass and conname = x_param_name),
                format('the parameter is of type %s', v_type));
    end;
    return 1;
end
$$;
comment on function pgq.set_queue_config(text, text, text) is 'Sets one parameter of a queue.';
