"""Check of the roles that may grant the engine's five roles, because they made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

# From PostgreSQL 16 on, a role that makes another one has ADMIN OPTION on it, and may give that to
# others. Superusers do not need it, and the schema's owner has every right in the schema. Up to 15,
# every role with CREATEROLE may grant them: such a role is not named, because it may be needed.
ADMINS: LiteralString = """
    with ours as (
        select oid, rolname, rolcanlogin from pg_roles
        where rolname in (
            'pgq_reader', 'pgq_writer', 'pgq_admin', 'pgq_ticker', 'pgq_dashboard'))
    select r.rolname::text as role, m.rolname::text as login, quote_ident(m.rolname) as quoted,
        quote_ident(g.rolname) as grantor
    from ours r
        join pg_auth_members a on a.roleid = r.oid
        join pg_roles m on m.oid = a.member
        left join pg_roles g on g.oid = a.grantor
    where a.admin_option and not m.rolsuper
        and m.oid <> (select nspowner from pg_namespace where nspname = 'pgq')
    union all
    select rolname, null, null, null from ours where rolcanlogin
    order by login, grantor, role
"""


def judge_admins(rows: list[Row]) -> Iterator[Finding]:
    """Report roles that may grant one of the five, and those of the five that can log in."""
    for row in rows:
        role = row["role"]
        if row["login"] is None:
            what = f"role {role} can log in: who made it may know its password"
            yield Finding("warn", "roles", what, f"alter role {role} nologin password null")
            continue
        what = f"role {row['login']} may grant {role} to itself and to others: it has ADMIN OPTION"
        by = f" granted by {row['grantor']}" if row["grantor"] else ""
        revoke = f"revoke admin option for {role} from {row['quoted']}{by} cascade"
        remedy = f"unless every database of the cluster trusts it: {revoke}"
        yield Finding("warn", "roles", what, remedy)
