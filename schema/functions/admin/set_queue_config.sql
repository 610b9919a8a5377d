-- Sets one parameter of a queue. PGQ's: ticker_max_count, ticker_max_lag, ticker_idle_period,
-- ticker_paused, rotation_period, external_ticker. Others: per_tx_limit and retention (empty:
-- none), disable_insert, ntables (only up: for fewer tables, events would have to move),
-- extra_maint (an array of functions that take the queue's name: see is_extra_maint, which
-- maint_operations asks again each time).
-- Returns: 1.
-- Raises: PQ009 NULL or an invalid value; PQ001; PQ010 unknown parameter.
-- Writes: advisory lock of create_queue; update pgq.queue; for ntables create table and function.
create or replace function pgq.set_queue_config(
    x_queue_name text, x_param_name text, x_param_value text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_known constant text[] := array[
        'ticker_max_count', 'ticker_max_lag', 'ticker_idle_period', 'ticker_paused',
        'rotation_period', 'external_ticker', 'per_tx_limit', 'disable_insert', 'ntables',
        'extra_maint', 'retention'];
    q pgq.queue;
    v_ntables int;
    v_function text;
begin
    if x_queue_name is null or x_param_name is null or x_param_value is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009';
    end if;
    perform pg_advisory_xact_lock(pgq.lock_number('engine'), pgq.lock_number('changing'));
    perform from pgq.queue where queue_name = x_queue_name for update;
    q := pgq.find_queue(x_queue_name);
    if x_param_name <> all (v_known) then
        raise exception 'cannot change parameter "%"', x_param_name using errcode = 'PQ010',
            hint = 'parameters: ' || array_to_string(v_known, ', ');
    end if;
    begin
        if x_param_name = 'extra_maint' then
            select f into v_function from unnest(nullif(x_param_value, '')::text[]) f
             where pgq.is_extra_maint(f) is not true limit 1;
            if found then
                raise exception 'no function %(text) that maintenance may call', v_function
                    using errcode = 'PQ009', hint = format('extra_maint is an array like '
                        '{my_schema.my_function}; each takes the queue''s name, belongs with its '
                        'schema to %s or a superuser, and not to an extension', current_user);
            end if;
        end if;
        execute format('update pgq.queue set %I = %L where queue_name = %L returning queue_ntables',
            'queue_' || x_param_name, nullif(x_param_value, ''), x_queue_name) into v_ntables;
        if v_ntables < q.queue_ntables then
            raise check_violation using message = 'a queue cannot get fewer tables';
        end if;
    exception when data_exception or integrity_constraint_violation then
        raise exception 'invalid value "%" for parameter "%"', x_param_value, x_param_name
            using errcode = 'PQ009', detail = sqlerrm, hint = coalesce(
                case x_param_name
                    when 'ntables' then
                        format('a whole number from %s (what it is) to 64', q.queue_ntables)
                    when 'extra_maint' then 'an array like {my_schema.my_function}'
                end,
                (select 'the parameter is ' || obj_description(oid, 'pg_constraint')
                   from pg_constraint
                  where conrelid = 'pgq.queue'::regclass and conname = x_param_name),
                (select 'the parameter is of type ' || format_type(atttypid, atttypmod)
                   from pg_attribute
                  where attrelid = 'pgq.queue'::regclass and attname = 'queue_' || x_param_name));
    end;
    if v_ntables > q.queue_ntables then
        perform pgq.create_event_table(q, i) from generate_series(q.queue_ntables, v_ntables - 1) i;
        perform pgq.grant_perms(x_queue_name);
        perform pgq.build_insert_path(q.queue_id);
    end if;
    return 1;
end $$;
comment on function pgq.set_queue_config is 'Sets one parameter of a queue.';
