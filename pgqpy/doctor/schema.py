"""Checks of the installed schema, the server's settings, rights, roles, and restored data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row, command, quoted_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

    from pgqpy.install import Status


def judge_schema(found: Status) -> Iterator[Finding]:
    """Compare the installed schema with this pgqpy's, after a check of its owners."""
    if (why := found.untrusted) is not None:
        what = f"{why.what}, so nothing else was looked at"
        yield Finding("fail", "owner", what, why.what_to_do)
        return
    if found.problem is not None:
        yield Finding("fail", "schema", *found.problem)
    elif found.extension is not None:
        what = (
            f"the extension pgq {found.extension} is here instead of pgqpy's engine: pgqpy's "
            "client and consumers work with it, PGQ's own pgqd ticks"
        )
        yield Finding("ok", "extension", what)
    else:
        yield Finding("ok", "schema", f"schema pgq version {found.installed}, as this pgqpy's")


SERVER = """
    select pg_is_in_recovery() as standby,
        current_setting('synchronous_commit') as synchronous_commit
"""


def judge_server(rows: list[Row]) -> Iterator[Finding]:
    """Report a standby, and a setting with which a crash loses events."""
    server = rows[0]
    if server["standby"]:
        what = "this server is a standby: it can neither insert nor tick"
        yield Finding("fail", "server", what, "connect to the primary")
    if server["synchronous_commit"] == "off":
        what = (
            "synchronous_commit is off: a crash of the server can lose the last committed events, "
            "even delivered ones"
        )
        remedy = "turn it on for this role or database, or accept the loss of up to a second"
        yield Finding("warn", "durability", what, remedy)
    else:
        yield Finding("ok", "durability", f"synchronous_commit is {server['synchronous_commit']}")


# role_may is false after a restore with --no-acl; user_may is false without the role's membership.
RIGHTS = """
    with wanted (role, right_name, signature) as (values
        ('pgq_reader', 'consume', 'pgq.next_batch(text,text)'),
        ('pgq_writer', 'insert events', 'pgq.insert_event(text,text,text)'),
        ('pgq_admin', 'administer queues', 'pgq.create_queue(text)'),
        ('pgq_ticker', 'tick', 'pgq.ticker_due(int,int)'))
    select current_user::text as "user", w.role, w.right_name,
        r.oid is not null as role_exists,
        has_function_privilege(r.oid, p.oid, 'execute') as role_may,
        has_function_privilege(p.oid, 'execute') as user_may,
        (select bool_or(has_function_privilege(h.oid, 'execute')) from pg_proc h
         where h.pronamespace = p.pronamespace and h.proname = 'get_history') as user_looks
    from wanted w
        join pg_proc p on p.oid = to_regprocedure(w.signature)
        left join pg_roles r on r.rolname = w.role
"""


def judge_rights(rows: list[Row]) -> Iterator[Finding]:
    """Report missing roles, missing grants, and the rights of the connected role."""
    for row in rows:
        if row["role_exists"] and not row["role_may"]:
            what = f"role {row['role']} lacks the right to {row['right_name']}"
            yield Finding("fail", "rights", what, "pgqpy schema install grants it again")
    missing = [row["role"] for row in rows if not row["role_exists"]]
    if missing:
        what = f"the role(s) {', '.join(missing)} are missing in this cluster"
        yield Finding("fail", "rights", what, "pgqpy schema install makes them")
    yield from _judge_user(rows)


def _judge_user(rows: list[Row]) -> Iterator[Finding]:
    if not rows:
        return
    user = rows[0]["user"]
    may = [row["right_name"] for row in rows if row["user_may"]]
    not_may = [f"{row['right_name']} ({row['role']})" for row in rows if not row["user_may"]]
    if not may and rows[0].get("user_looks"):
        yield Finding("ok", "rights", f"role {user} may look (pgq_dashboard), and no more")
        return
    if not may:
        what = f"role {user} lacks every right: it may not {', '.join(not_may)}"
        yield Finding("fail", "rights", what, f"grant one of these roles to {quoted_role(user)}")
        return
    lacks = f", not: {', '.join(not_may)}" if not_may else ""
    yield Finding("ok", "rights", f"role {user} may {', '.join(may)}{lacks}")


# What PUBLIC has and the engine does not grant it, or the reverse: see schema/setup/grants.sql. A
# restore without privileges leaves EXECUTE on each function to PUBLIC, the default of PostgreSQL.
# The pinned search_path tells the engine's functions from those that the owner added to the schema.
PUBLIC = """
    select right_name, wanted
    from (
        select 'USAGE on schema ' || nspname, nspname = 'pgq',
            has_schema_privilege('public', oid, 'usage')
        from pg_namespace where nspname in ('pgq', 'pgq_coop')
        union all
        select 'EXECUTE on ' || p.oid::regprocedure,
            proname ~ '(?x)^(get_((queue|consumer|stalled|rotation|tick|cron)_info
                | tick_(at|marks) | (consumer|delayed|retry)_counts | queue_metrics | waiting_since
                | inflight | holders | captures) | queue_length | schema_version)$',
            has_function_privilege('public', p.oid, 'execute')
        from pg_proc p
        where pronamespace in (to_regnamespace('pgq'), to_regnamespace('pgq_coop')) and prosecdef
            and 'search_path=pg_catalog, pg_temp' = any (proconfig)
        union all
        select 'SELECT on pgq.' || relname,
            relname !~ '(?x)^(event_.* | retry_queue | delayed_event | dead_event | kept_event
                | skipped_event | dedup_key | ledger | stage | cron | replay
                | change | history(_[0-2])?)$',
            has_any_column_privilege('public', c.oid, 'select')
        from pg_class c
        where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'v')
            and relname ~ '(?x)^(installation | queue | checked | tick(_recent)?
                | truncation_[0-9]+ | consumer | registration | subscription | (current_)?position
                | event_(template|[0-9]+(_[0-9]+)?) | retry_queue | delayed_event | dead_event
                | kept_event | skipped_event | dedup_key | ledger | stage | cron | replay
                | change | history(_[0-2])?)$'
    ) rights (right_name, wanted, granted)
    where wanted <> granted and not exists (select from pg_extension where extname = 'pgq')
    order by 1 desc
"""


def judge_public(rows: list[Row]) -> Iterator[Finding]:
    """Report rights that PUBLIC has and should not have, or the reverse."""
    remedy = "pgqpy schema install: it sets the rights, which a restore without privileges loses"
    added = [row["right_name"] for row in rows if not row["wanted"]]
    if added:
        what = f"PUBLIC has {len(added)} right(s) that the engine does not grant: {_listed(added)}"
        yield Finding("fail", "rights", what, remedy)
    missing = [row["right_name"] for row in rows if row["wanted"]]
    if missing:
        what = f"PUBLIC lacks {len(missing)} right(s) that the engine grants: {_listed(missing)}"
        yield Finding("fail", "rights", what, remedy)


# A restore without owners makes them the restoring role's, and their owner may alter them.
CAPTURE = """
    select p.oid::regprocedure::text as function from pg_proc p
    where pronamespace = to_regnamespace('pgq') and proname in ('capture_row', 'capture_rows')
        and not (prosecdef and proowner = any (array(
            select oid from pg_roles where rolname = 'pgq_capture'))
            and 'search_path=pg_catalog, pg_temp' = any (proconfig))
    order by 1
"""


def judge_capture(rows: list[Row]) -> Iterator[Finding]:
    """Report functions of captured tables that lost their owner's rights: writes fail."""
    for row in rows:
        what = f"{row['function']} does not run with the rights of pgq_capture: writes fail"
        yield Finding("fail", "capture", what, "pgqpy schema install")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if names[3:] else "")


RESTORED = """
    select q.queue_name,
        greatest(txid_snapshot_xmax(t.tick_snapshot), (
            select max(txid_snapshot_xmax(o.tick_snapshot)) from pgq.tick o
            where o.tick_queue = q.queue_id and not exists (  -- until then insert_tick compares all
                select from pgq.checked where checked_queue = q.queue_id and checked_number = 2)
        )) as tick_xmax,
        txid_snapshot_xmax(txid_current_snapshot()) as now_xmax,
        case when has_sequence_privilege(q.queue_tick_seq, 'select')
            then coalesce(pg_sequence_last_value(q.queue_tick_seq::regclass), 0) < t.tick_id
                or coalesce(pg_sequence_last_value(q.queue_event_seq::regclass), 0)
                    < t.tick_event_seq
        end as sequence_behind
    from pgq.queue q
        join pgq.tick t on t.tick_queue = q.queue_id
            and t.tick_id = (select max(tick_id) from pgq.tick where tick_queue = q.queue_id)
    order by 1
"""


def judge_restored(rows: list[Row]) -> Iterator[Finding]:
    """Report queues whose ticks have larger transaction ids than the cluster: a restored dump."""
    refused = [row for row in rows if row["tick_xmax"] > row["now_xmax"]]
    for row in refused:
        what = (
            f"queue {row['queue_name']} comes from a cluster with larger transaction ids "
            f"({row['tick_xmax']}, now {row['now_xmax']}): it refuses to tick"
        )
        yield Finding("fail", "restored", what, "pgqpy schema repair")
    behind = [row for row in rows if row["sequence_behind"]]
    for row in behind:
        what = f"queue {row['queue_name']} refuses to tick: its sequence is behind its last tick"
        yield Finding("fail", "restored", what, "pgqpy schema repair")
    if not refused and not behind:
        yield Finding("ok", "restored", "transaction ids go forward on every queue")


MOVED = """
    select queue_name from pgq.queue
    where (
        select bool_and(xmin::text::bigint = checked_xmin) from pgq.checked
        where checked_queue = queue_id) is not true  -- see is_moved
    order by 1
"""


def judge_moved(rows: list[Row]) -> Iterator[Finding]:
    """Report queues that no tick has checked since they were restored."""
    for row in rows:
        name = row["queue_name"]
        what = f"queue {name} was restored, and has not ticked since"
        remedy = f"{command('schema', 'repair', name)}: it does nothing where that is not needed"
        yield Finding("warn", "restored", what, remedy)


MISSING: LiteralString = """
    select q.queue_name, c.co_name as consumer_name, s.sub_last_tick, s.sub_id
    from pgq.subscription s
        join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where s.sub_last_tick is not null and not exists (
        select from pgq.tick t where t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick)
    order by 1, 2
"""
POSITIONS: LiteralString = f"""
    select * from ({MISSING}) s where not exists (
        select from pgq.registration r where r.sub_id = s.sub_id and r.sub_detached is not null)
"""  # noqa: S608  # our own query within our own
EXTENSION_POSITIONS: LiteralString = f"""
    select * from ({MISSING}) s where exists (select from pg_extension where extname = 'pgq')
"""  # noqa: S608  # our own query within our own


def judge_positions(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers whose tick does not exist any more (PQ015)."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = f"consumer {consumer} of {queue} is at tick {row['sub_last_tick']}, which is missing"
        seek = command("consumer", "seek", queue, consumer)
        remedy = f"{seek} TICK sets it to one that exists"
        yield Finding("fail", "position", what, remedy)


# From PostgreSQL 16 on, a role that makes another one has ADMIN OPTION on it, and may give that to
# others. Superusers do not need it, and the schema's owner has every right in the schema. Up to 15,
# every role with CREATEROLE may grant them: such a role is not named, because it may be needed.
ADMINS: LiteralString = """
    with ours as (
        select oid, rolname, rolcanlogin from pg_roles
        where rolname in (
            'pgq_reader', 'pgq_writer', 'pgq_admin', 'pgq_ticker', 'pgq_dashboard',
            'pgq_capture'))
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
    """Report roles that may grant one of the six, and those of the six that can log in."""
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
