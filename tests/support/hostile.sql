-- A schema whose functions and operators do what those of pg_catalog do, and record the call. A
-- sequence records it: it counts in transactions that are rolled back too.
create schema hostile;
create sequence hostile.calls;

create function hostile.called(what text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
    perform nextval('hostile.calls');
    raise warning 'hostile % was called', what;
end $$;

create function hostile.ordinary(types oid[]) returns boolean
language sql set search_path = pg_catalog as $$
    select not exists (select from pg_type where oid = any (types) and typtype = 'p')
$$;

create function hostile.shadow_functions(names text[]) returns void
language plpgsql set search_path = pg_catalog as $make$
declare
    each record;
begin
    for each in
        select p.proname as name, pg_get_function_identity_arguments(p.oid) as arguments,
            format_type(p.prorettype, null) as result, p.proretset as many,
            (select string_agg('$' || n, ', ') from generate_series(1, p.pronargs) as n) as given
          from pg_proc p
         where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = any (names)
           and p.prokind = 'f' and p.provariadic = 0 and p.proallargtypes is null
           and hostile.ordinary(p.proargtypes::oid[] || p.prorettype)
    loop
        execute format($f$
            create function hostile.%1$I(%2$s) returns %3$s language plpgsql
            set search_path = pg_catalog as $body$
            begin
                perform hostile.called(%1$L);
                %4$s pg_catalog.%1$I(%5$s);
            end $body$
        $f$, each.name, each.arguments,
            case when each.many then 'setof ' else '' end || each.result,
            case when each.many then 'return query select' else 'return' end, each.given);
    end loop;
end $make$;

create function hostile.shadow_operators(names text[]) returns void
language plpgsql set search_path = pg_catalog as $make$
declare
    each record;
begin
    for each in
        select o.oprname as name, 'operator_' || o.oid as function,
            format_type(o.oprleft, null) as a, format_type(o.oprright, null) as b,
            format_type(o.oprresult, null) as result
          from pg_operator o
         where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprname = any (names)
           and o.oprkind = 'b' and hostile.ordinary(array[o.oprleft, o.oprright, o.oprresult])
    loop
        execute format($f$
            create function hostile.%1$I(%2$s, %3$s) returns %4$s language plpgsql
            set search_path = pg_catalog as $body$
            begin
                perform hostile.called(%5$L);
                return $1 operator(pg_catalog.%6$s) $2;
            end $body$
        $f$, each.function, each.a, each.b, each.result, concat_ws(' ', each.a, each.name, each.b),
            each.name);
        execute format(
            'create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.%I)',
            each.name, each.a, each.b, each.function);
    end loop;
end $make$;

grant usage on schema hostile to public;
