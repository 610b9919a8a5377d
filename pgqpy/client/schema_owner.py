"""The check of the owners of schema pgq and of its objects: a query and its error. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.errors import SchemaMissing, SchemaRefused
from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import LiteralString

# Any role with CREATE on the database can make a schema pgq with functions of the right names. They
# run with the rights of the caller, who may be a superuser, and a caller may at least change its
# own password. The same goes for views, and for types with casts; operators and the rest are found
# by search_path only. So the owner of the schema, and of what is in it, is one of these:
# - a role that could act as the session's user anyway: this user, or a superuser;
# - the database's owner;
# - the role that the session has taken by SET ROLE: a user who sets this role declares trust in it.
# That the session's user is a member of the owner does not suffice: a superuser is a member of
# every role, and one with CREATEROLE of those that it made.
# It is session_user that counts, for code that runs as current_user may reset the role.
# One row, for the schema itself if its owner is wrong; none if all owners are right, or none exist.
UNTRUSTED_OWNER: LiteralString = """
    select pg_describe_object(held.class, held.object, 0) as object,
        r.rolname::text as owner, session_user::text as user, d.datname::text as database,
        held.class = 'pg_namespace'::regclass as whole
    from pg_namespace n
    join pg_database d on d.datname = current_database()
    cross join lateral (
        select 'pg_namespace'::regclass, n.oid, n.nspowner
        union all
        select 'pg_class'::regclass, oid, relowner from pg_class where relnamespace = n.oid
        union all
        select 'pg_proc'::regclass, oid, proowner from pg_proc where pronamespace = n.oid
        union all
        select 'pg_type'::regclass, oid, typowner from pg_type where typnamespace = n.oid
    ) held (class, object, owner)
    join pg_roles r on r.oid = held.owner
    where n.nspname = 'pgq' and r.oid <> d.datdba and r.rolname <> current_user
        and not pg_has_role(r.oid, session_user, 'member')
    order by whole desc, held.class desc, held.object
    limit 1
"""
# The schema's oid, null if there is none, and that row or nulls. No schema is not a trusted one:
# any role with CREATE on the database could make it, or give it this name, after a look for owners.
SCHEMA_AND_UNTRUSTED: LiteralString = f"""
    select n.oid as schema, found.*
    from (select) one
    left join pg_namespace n on n.nspname = 'pgq'
    left join ({UNTRUSTED_OWNER}) found on true
"""  # noqa: S608  # our own query within our own


def check_owner(row: Sequence[Any] | None) -> None:
    """Take the row of SCHEMA_AND_UNTRUSTED. Raises SchemaMissing, SchemaRefused."""
    schema, *untrusted = row or (None,)
    if schema is None:
        raise SchemaMissing
    if untrusted[0] is not None:
        raise not_trusted(*untrusted)


def not_trusted(
    object: str,  # the column's name, as are the others
    owner: str,
    user: str,
    database: str,
    whole: bool,  # noqa: FBT001  # see above
) -> SchemaRefused:
    """Return the error for a row of UNTRUSTED_OWNER: it names the owner, and what to do."""
    owned, role = printable(object), printable(owner)
    what = (
        f"the {owned} belongs to role {role}, which is neither a superuser nor the owner of the "
        f"database: its code would run with the rights of {printable(user)}"
    )
    remedy = (
        f"if {role} installed pgqpy, make it the owner of database {printable(database)}, or "
        f'take its role (PGOPTIONS="-c role={role}"); else drop the schema'
        if whole
        else "drop it, or give it to the owner of the schema if you know what it is"
    )
    return SchemaRefused(
        f"{what}: {remedy}", what=what, what_to_do=remedy, object=object, owner=owner
    )
