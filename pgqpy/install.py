"""Installation, upgrade, status and removal of the schema pgq in a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row

from pgqpy import locks
from pgqpy.client.opening import UNTRUSTED_OWNER, not_trusted
from pgqpy.errors import PgqError, SchemaMissing, SchemaRefused
from pgqpy.manifest import (
    execute_sql,
    place,
    preflight_sql,
    shipped_version,
)

if TYPE_CHECKING:
    from psycopg import Connection
    from typing_extensions import LiteralString

ROLES = (
    *("pgq_reader", "pgq_writer", "pgq_admin"),
    *("pgq_ticker", "pgq_dashboard", "pgq_capture"),
)
LOCK = (locks.ENGINE, locks.INSTALLING)  # the advisory lock that schema/install.sql takes too
INSTALL_REFUSED = "PQ014"

# By Status.state: what is wrong, and what to do.
PROBLEMS = {
    "missing": ("schema pgq is not installed in this database", SchemaMissing.what_to_do),
    "old": (
        "the schema is version {0.installed}, this pgqpy's is {0.shipped}",
        "pgqpy schema install",
    ),
    "newer": (
        "the schema is version {0.installed}, newer than this pgqpy's {0.shipped}",
        "pip install --upgrade pgqpy",
    ),
    "foreign": (
        "the schema pgq here is not pgqpy's",
        "rename or drop it, then pgqpy schema install",
    ),
    "empty": (
        "the schema pgq has its tables without their rows, as a schema-only dump restores them",
        "pgqpy schema uninstall, then pgqpy schema install; or restore a dump with data",
    ),
}


class InstallFailed(PgqError):
    """The server refused a statement of the schema; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the schema pgq in a database, compared with this package."""

    database: str
    user: str
    server_version: int  # 180003 is 18.3
    shipped: int  # the version of the schema in this package
    installed: int | None  # 0: tables without rows; None: not pgqpy's, or not safe to read
    schema_exists: bool  # a schema pgq, pgqpy's or not
    owner: str | None
    extension: str | None  # version of the extension pgq, if it is present
    roles: tuple[str, ...]
    missing_roles: tuple[str, ...]
    queues: int
    untrusted: SchemaRefused | None = None  # set if calls into the schema are not safe

    @property
    def state(self) -> str:
        """One word: untrusted, extension, missing, foreign, empty, old, current or newer."""
        if self.untrusted is not None:
            return "untrusted"
        if self.extension is not None:
            return "extension"
        if self.installed is None:
            return "foreign" if self.schema_exists else "missing"
        if self.installed == 0:
            return "empty"
        if self.installed == self.shipped:
            return "current"
        return "old" if self.installed < self.shipped else "newer"

    @property
    def problem(self) -> tuple[str, str] | None:
        """What is wrong, and what to do; None if the state is untrusted, extension or current."""
        if self.state not in PROBLEMS:
            return None
        what, remedy = PROBLEMS[self.state]
        return what.format(self), remedy


class Uninstalled(NamedTuple):
    """The result of `uninstall`: the number of dropped queues, dropped roles, kept roles."""

    queues: int
    dropped_roles: tuple[str, ...]
    kept_roles: tuple[str, ...]


def install(connection: Connection[Any]) -> int:
    """Install or upgrade the schema in one transaction; return its version.

    It may be repeated, and run by two sessions at once. The connection must be in autocommit mode
    and outside a transaction: the script has its own.

    Raises SchemaRefused (extension pgq present, roles missing, right missing, a newer schema),
    InstallFailed (with file and line).
    """
    _check_idle(connection)
    before = status(connection)
    if before.state == "newer":
        raise SchemaRefused.too_new(before.installed, before.shipped)
    try:
        connection.execute(execute_sql(), prepare=False)
    except psycopg.Error as exc:
        if not connection.closed:
            connection.rollback()  # the transaction that the script began
        raise _explain(exc) from exc
    return shipped_version()


def status(connection: Connection[Any]) -> Status:
    """Return the state of the database; change nothing and call no untrusted code."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_STATUS, [list(ROLES)]).fetchone() or {}
    ours, queues, untrusted = row.pop("ours"), row.pop("has_queues"), row.pop("untrusted")
    if untrusted is not None:
        untrusted[-1] = untrusted[-1] == "true"
    # Reading another role's table runs that role's code: the casts of its column types.
    installed, count = None, 0
    if untrusted is None and ours:
        installed = _scalar(connection, "select coalesce(max(version), 0) from pgq.installation")
    if untrusted is None and queues:
        count = _scalar(connection, "select count(*) from pgq.queue")
    roles = tuple(row.pop("roles"))
    missing = tuple(role for role in ROLES if role not in roles)
    return Status(
        **row,
        server_version=connection.info.server_version,
        shipped=shipped_version(),
        installed=installed,
        queues=count,
        roles=roles,
        missing_roles=missing,
        untrusted=not_trusted(*untrusted) if untrusted else None,
    )


def uninstall(
    connection: Connection[Any], *, force: bool = False, roles: bool = False
) -> Uninstalled:
    """Drop the schema pgq with all queues, in one transaction.

    Without `force` it refuses if there are queues. The six roles belong to the cluster and stay;
    with `roles`, those are dropped that no database uses and that have no other members. It refuses
    if an object of another schema depends on it, such as a view on an event table. Stop tickers and
    consumers first.

    Raises SchemaMissing, SchemaRefused.
    """
    _check_idle(connection)
    try:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s, %s)", LOCK)
            connection.execute("set local row_security = off")  # a hidden queue would be dropped
            found = status(connection)
            if found.untrusted is not None:
                connection.execute(preflight_sql().encode())  # raises, and names what is not ours
                raise SchemaRefused(str(found.untrusted))
            queues = _check_removable(found, force=force)
            connection.execute(preflight_sql().encode())
            if others := _dependents(connection):
                msg = f"other objects depend on the schemas pgq and pgq_coop: {others}; drop them"
                raise SchemaRefused(msg)
            connection.execute("drop schema pgq, pgq_coop cascade")
    except psycopg.errors.OutOfMemory as exc:  # no room for locks: 50 a queue
        what_to_do = (
            "raise max_locks_per_transaction and restart the server, "
            "or drop queues one by one first (pgqpy queue drop)"
        )
        msg = f"nothing was dropped: {exc.diag.message_primary}; {what_to_do}"
        raise SchemaRefused(msg) from exc
    except psycopg.Error as exc:
        raise _explain(exc) from exc
    dropped = tuple(role for role in reversed(ROLES) if roles and _drop_role(connection, role))
    kept = tuple(role for role in status(connection).roles if role not in dropped)
    return Uninstalled(queues, dropped, kept)


def _dependents(connection: Connection[Any]) -> str | None:
    """Return their descriptions, separated by commas; None if there is none.

    Call it in a transaction: it sets a setting for the rest of that.
    """
    connection.execute("set local quote_all_identifiers = off")  # for the names of the schemas
    found: str | None = _scalar(connection, _DEPENDENTS)
    return found


def _check_removable(found: Status, *, force: bool) -> int:
    if found.state == "extension":
        raise SchemaRefused("the schema pgq belongs to the extension pgq: drop extension pgq")
    if found.state == "missing":
        raise SchemaMissing
    if found.state == "foreign":
        raise SchemaRefused("the schema pgq in this database is not pgqpy's: it was left alone")
    if found.queues and not force:
        msg = (
            f"{found.queues} queue(s) and their events would be lost: "
            "drop the queues first, or uninstall with --force (in Python: force=True)"
        )
        raise SchemaRefused(msg)
    return found.queues


def _drop_role(connection: Connection[Any], role: str) -> bool:
    if _scalar(connection, _FOREIGN_MEMBERS, [role, list(ROLES)]):
        return False
    try:
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
    except (
        psycopg.errors.UndefinedObject,
        psycopg.errors.DependentObjectsStillExist,
        psycopg.errors.InsufficientPrivilege,
    ):
        return False
    return True


def _check_idle(connection: Connection[Any]) -> None:
    idle = connection.info.transaction_status == TransactionStatus.IDLE
    if not (connection.autocommit and idle):
        msg = "installing needs a connection in autocommit mode, outside a transaction"
        raise SchemaRefused(msg)


def _explain(exc: psycopg.Error) -> PgqError:
    message = exc.diag.message_primary or str(exc).strip()
    more = "; ".join(text for text in (exc.diag.message_detail, exc.diag.message_hint) if text)
    text = f"{message}; {more}" if more else message
    if exc.sqlstate == INSTALL_REFUSED:
        return SchemaRefused(text)
    if exc.sqlstate == psycopg.errors.InsufficientPrivilege.sqlstate:
        return SchemaRefused(f"{text}; connect as the owner of the database")
    where = place(exc.diag.statement_position)
    return InstallFailed(f"{where}{text}")


def _scalar(
    connection: Connection[Any], query: LiteralString, params: list[Any] | None = None
) -> Any:
    row = connection.cursor(row_factory=tuple_row).execute(query, params).fetchone()
    return row[0] if row else None


# One statement, for the reason of SCHEMA_AND_UNTRUSTED: two would see two schemas of this name.
_STATUS: LiteralString = f"""
    select current_database()::text as database, current_user::text as user,
        (select extversion from pg_extension where extname = 'pgq') as extension,
        n.oid is not null as schema_exists, pg_get_userbyid(n.nspowner)::text as owner,
        array(select rolname::text from pg_roles where rolname = any(%s) order by 1) as roles,
        'installation' = any(plain.names) as ours, 'queue' = any(plain.names) as has_queues,
        -- not row_to_json: JSON with a name that is no UTF-8 cannot be read
        (select array[object, owner, "user", database, whole::text]
         from ({UNTRUSTED_OWNER}) found) as untrusted
    from (select 1) as one left join pg_namespace n on n.nspname = 'pgq'
    -- another role's view would run that role's code with the reader's rights
    cross join lateral (select array(select relname::text from pg_class where relnamespace = n.oid
        and relkind = 'r' and relowner = n.nspowner) as names) plain
"""  # noqa: S608  # our own query within our own

_FOREIGN_MEMBERS = """
    select exists (select from pg_auth_members m join pg_roles r on r.oid = m.roleid
        where r.rolname = %s and m.member <> current_user::regrole
        and pg_get_userbyid(m.member) <> all(%s))
"""

# What depends on tables, types or functions of the schemas. A rule, a default, a constraint or a
# trigger has no schema of its own: the first part of its address is its table's.
_DEPENDENTS: LiteralString = """
    with space as (select oid from pg_namespace where nspname in ('pgq', 'pgq_coop'))
    select string_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid), ', ')
    from pg_depend d
    where d.deptype = 'n'
        and (d.refclassid, d.refobjid) in (
            select tableoid, oid from pg_class where relnamespace in (select oid from space)
            union all
            select tableoid, oid from pg_type where typnamespace in (select oid from space)
            union all
            select tableoid, oid from pg_proc where pronamespace in (select oid from space))
        and coalesce(
            (pg_identify_object(d.classid, d.objid, 0)).schema,
            (pg_identify_object_as_address(d.classid, d.objid, 0)).object_names[1])
            not in ('pgq', 'pgq_coop')
"""
