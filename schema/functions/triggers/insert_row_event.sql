-- Inserts the event of one change of a table, for jsontriga, logutriga and sqltriga. Like PGQ's
-- triggers in C, it has the rights of the role that changes the table.
--
-- Values are written by the output functions of their types (format's %s), as in C: a cast to text
-- would cut the blanks of a char(n), and write true for t. PGQ compares all columns by the equality
-- of their types. Here keys are; others are compared by their text, as json has no equality.
-- Parameters: i_format: json, url or sql. i_path: the caller's search_path, for expressions. The
--   others are those of the trigger, under PL/pgSQL's names.
-- Returns: whether the row may be written.
-- Raises: P0001 with PGQ's texts; as insert_event, and as an expression of the trigger.
-- Writes: as insert_event.
create or replace function pgq.insert_row_event(
    i_format text, i_argv text[], i_relid oid, i_op text, i_when text, i_level text, i_path text,
    i_old record, i_new record)
returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    c_native constant regtype[] :=  -- to_json writes their values; others are strings
        '{boolean,smallint,integer,bigint,date,timestamp,timestamptz}';
    c_separator constant text := '[,[:space:]]+';
    c_fields constant text[] := '{ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}';
    o record;  -- the trigger's arguments
    v_table text[];
    v_pkey text[];  -- as events show it
    v_keys text[];
    v_refusal text;
    v_columns text[];
    v_hidden text[];
    v_changed text[];
    v_select text;
    v_old text[];
    v_new text[];
    v_event text[] := array_fill(null::text, array[6]);  -- by c_fields
    e record;
    v record;
begin
    if current_setting('session_replication_role') = 'local' then
        return true;
    end if;
    select coalesce(bool_or(arg in ('SKIP', 'skip')), false) as skip,
           coalesce(bool_or(arg = 'backup'), false) as backup, bool_or(arg = 'deny') as deny,
           max(substr(arg, 8)) filter (where arg like 'ignore=%') as ignored,
           max(substr(arg, 6)) filter (where arg like 'pkey=%') as pkey,
           max(arg) filter (where arg ~ '^(when|ev_)') as expression,
           max(arg) filter (where arg !~ '^(SKIP|skip|backup|deny)$'
               and arg !~ '^(ignore|pkey|when|ev_type|ev_data|ev_extra[1-4])=') as unknown
      into o from unnest(i_argv[1:]) arg;
    select array[nspname, relname] into v_table
      from pg_class c join pg_namespace n on n.oid = relnamespace where c.oid = i_relid;
    v_pkey := coalesce(regexp_split_to_array(o.pkey, ','), array(
        select attname from pg_constraint cross join unnest(conkey) with ordinality k (attnum, n)
          join pg_attribute a on a.attrelid = i_relid and a.attnum = k.attnum
         where conrelid = i_relid and contype = 'p' order by n));
    v_keys := coalesce(regexp_split_to_array(o.pkey, c_separator), v_pkey);
    if o.unknown is not null then
        raise exception 'bad param to pgq trigger' using detail = o.unknown;
    end if;
    v_refusal := case
        when i_op <> 'TRUNCATE' and i_level <> 'ROW'
            then 'pgq Ins/Upd/Del trigger must be fired FOR EACH ROW'
        when i_argv is null then 'pgq trigger must have destination queue as argument'
        when i_op = 'TRUNCATE' and o.expression is not null
            then 'Custom expressions do not make sense for truncater trigger'
        when i_op = 'TRUNCATE' and o.ignored is not null
            then 'Column ignore does not make sense for truncate trigger'
        when i_op = 'TRUNCATE' and o.pkey is not null
            then 'Custom pkey_list does not make sense for truncate trigger'
        when i_op = 'TRUNCATE' and o.backup then 'Backup does not make sense for truncate trigger'
        when i_op in ('UPDATE', 'DELETE') and array_to_string(v_pkey, ',') = ''
            then 'Update/Delete on table without pkey'
        when o.skip and i_when = 'AFTER' then 'SKIP does not work in AFTER trigger.'
        when o.deny then format('Table ''%s.%s'' to queue ''%s'': change not allowed (%s)',
            v_table[1], v_table[2], i_argv[0], i_op)
    end;
    if v_refusal is not null then
        raise exception '%', v_refusal;
    end if;

    v_event[1] := case
        when i_format = 'json' then format('{"op":"%s","table":%s,"pkey":%s}',
            i_op, array_to_json(v_table), array_to_json(v_pkey))
        when i_op = 'TRUNCATE' then 'R'
        when i_format = 'url' then left(i_op, 1) || ':' || array_to_string(v_pkey, ',')
        else left(i_op, 1) end;
    v_event[3] := array_to_string(v_table, '.');
    if i_op = 'TRUNCATE' then
        v_event[2] := case i_format when 'json' then '{}' else '' end;
        perform pgq.insert_event(i_argv[0], v_event[1], v_event[2], v_event[3], null, null, null);
        return true;
    end if;
    select array_agg(attname order by attnum),
           coalesce(array_agg(attname) filter (where starts_with(attname, '_pgq_ev_')
               or attname = any (regexp_split_to_array(o.ignored, c_separator))), '{}'),
           format('select array[%s]::text[] from (select ($1).*) r', string_agg(format(
               case when i_format = 'json' and atttypid = any (c_native) then 'to_json(r.%1$I)'
                   when i_format = 'json'
                   then 'case when num_nulls(r.%1$I) = 0 then to_json(format(''%%s'', r.%1$I)) end'
                   else 'case when num_nulls(r.%1$I) = 0 then format(''%%s'', r.%1$I) end'
               end, attname), ', ' order by attnum))
      into v_columns, v_hidden, v_select
      from pg_attribute where attrelid = i_relid and attnum > 0 and not attisdropped;
    if i_op <> 'INSERT' then
        execute v_select into v_old using i_old;
    end if;
    if i_op <> 'DELETE' then
        execute v_select into v_new using i_new;
    end if;
    if i_op = 'UPDATE' then
        v_changed := array(
            select name from unnest(v_columns, v_old, v_new) c (name, old, new)
             where old is distinct from new);
        if v_changed && v_keys then
            execute format('select %s as differ', (
                select string_agg(format('array[($1).%1$I] <> array[($2).%1$I]', name), ' or ')
                  from unnest(v_changed) name where name = any (v_keys))) into v using i_old, i_new;
            if v.differ then
                raise exception 'primary key update not allowed';
            end if;
        end if;
        v_changed := array(select name from unnest(v_changed) name where name <> all (v_keys));
        if v_changed <> '{}' and v_changed <@ v_hidden
                and (o.ignored is not null or i_format = 'sql') then
            return not o.skip;
        end if;
        if o.backup then
            v_event[4] := pgq.encode_row(i_format, v_columns, v_old, v_hidden);
        end if;
    end if;
    v_event[2] := case i_format
        when 'sql' then pgq.encode_change(i_op, v_columns, v_old, v_new, v_keys, array(
            select name from unnest(coalesce(v_changed, v_columns)) name
             where name <> all (v_hidden)))
        else pgq.encode_row(i_format, v_columns, coalesce(v_new, v_old), v_hidden) end;

    for e in
        select substr(name, 6) as field, quote_ident(name) as expression from unnest(v_hidden) name
         where starts_with(name, '_pgq_ev_')
        union all
        select split_part(arg, '=', 1), substr(arg, strpos(arg, '=') + 1)
          from unnest(i_argv[1:]) arg where arg ~ '^(when|ev_)'
    loop
        v := pgq.evaluate(
            e.expression, i_path, case i_op when 'DELETE' then i_old else i_new end);
        if e.field = any (c_fields) then
            v_event[array_position(c_fields, e.field)] := v.value;
        elsif e.field <> 'when' then
            raise exception 'Unknown magic column: _pgq_%', e.field;
        elsif v.type <> 'boolean'::regtype then
            raise exception 'when= query result must be boolean, got=%', v.type::oid;
        elsif v.value is null then
            raise exception 'when= should not be NULL';
        elsif v.value <> 't' then
            return not o.skip;
        end if;
    end loop;
    perform pgq.insert_event(
        i_argv[0], v_event[1], v_event[2], v_event[3], v_event[4], v_event[5], v_event[6]);
    return not o.skip;
end $$;
comment on function pgq.insert_row_event is 'Inserts the event of one change of a table.';
