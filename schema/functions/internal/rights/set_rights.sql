-- Sets the rights on an object of the engine to exactly the listed ones: nobody but the owner keeps
-- another right. Default privileges (ALTER DEFAULT PRIVILEGES) of the role that creates an object
-- may give others more, such as EXECUTE on a function or SELECT on events. An object whose rights
-- are right already is not touched, so that no row of the catalogue is written for it.
-- Parameters: i_catalogue: pg_proc, pg_class or pg_namespace. i_object: null or a missing object is
--   ignored. i_rights: each 'role privilege' or 'role privilege column', in lower case; the role
--   public is everybody.
-- Writes: revoke, grant.
create or replace function pgq.set_rights(i_catalogue regclass, i_object oid, i_rights text[])
returns void language plpgsql as $$
declare
    v_owner oid;
    v_acl aclitem[];
    v_role text;
    v_right text[];
    v_there text[];
    v_roles text[];  -- with rights now; apart from v_there, because a role's name may hold spaces
    o record;
begin
    select * into v_owner, v_acl from (
        select proowner, coalesce(proacl, acldefault('f', proowner)) from pg_proc
         where i_catalogue = 'pg_proc'::regclass and oid = i_object
        union all
        select relowner, coalesce(relacl, acldefault(
                case relkind when 'S' then 's' else 'r' end::"char", relowner)) from pg_class
         where i_catalogue = 'pg_class'::regclass and oid = i_object
        union all
        select nspowner, coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace
         where i_catalogue = 'pg_namespace'::regclass and oid = i_object) here;
    select coalesce(array_agg(concat_ws(' ', role, lower(privilege_type collate "C"), attname,
               case when is_grantable then 'grant' end)), '{}'),
           array_agg(distinct role)
      into v_there, v_roles
      from (
            select coalesce(rolname, 'public') as role, given.*
              from (
                    select null::name as attname, a.* from aclexplode(v_acl) a
                    union all
                    select attname, a.* from pg_attribute cross join lateral aclexplode(attacl) a
                     where i_catalogue = 'pg_class'::regclass and attrelid = i_object) given
              left join pg_roles r on r.oid = grantee
             where grantee <> v_owner) named;
    if v_owner is null or v_there <@ i_rights and i_rights <@ v_there then
        return;
    end if;
    select case type when 'view' then 'table' else type end as kind, identity into o
      from pg_identify_object(i_catalogue, i_object, 0);
    foreach v_role in array coalesce(v_roles, '{}') loop
        execute format('revoke all on %s %s from %I cascade', o.kind, o.identity, v_role);
    end loop;
    for v_right in select string_to_array(wanted, ' ') from unnest(i_rights) wanted loop
        execute format(
            case when v_right[3] is null then 'grant %3$I on %1$s %2$s to %4$I'
                else 'grant %3$I (%5$I) on %1$s %2$s to %4$I' end,
            o.kind, o.identity, v_right[2], v_right[1], v_right[3]);
    end loop;
end $$;
