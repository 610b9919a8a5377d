"""A table that was another role's once is refused while it runs code of that role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy.archive import ArchiveMismatch
from pgqpy.archive.unfit import find_unfit
from tests.archive.test_table import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.archive.shop import Shop

CODE = """
    create function kept.code(text) returns text language sql immutable as 'select $1';
    create function kept.code(int) returns bool language sql immutable as 'select true';
    create operator kept.! (rightarg = int, function = kept.code)"""
STRANGERS = """
    alter function kept.code(text) owner to stranger;
    alter function kept.code(int) owner to stranger"""
CALLS = {
    "check": "alter table kept.events add check (kept.code(queue_id))",
    "operator": "alter table kept.events add check (operator(kept.!) queue_id)",
    "default": "alter table kept.events add more text default kept.code('a')",
    "generated": "alter table kept.events add m text generated always as (kept.code('a')) stored",
    "index": "create index on kept.events (kept.code(ev_data))",
    "predicate": "create index on kept.events (ev_id) where kept.code(queue_id)",
    "policy": "create policy all_rows on kept.events with check (kept.code(queue_id))",
    "domain": """create domain kept.id as int check (kept.code(value));
        alter table kept.events alter queue_id type kept.id""",
    "part": """drop table kept.events;
        create table kept.events (like pgq.event_template, queue_id int, to_tick bigint)
            partition by list (queue_id);
        create table kept.one partition of kept.events (check (kept.code(queue_id)))
            for values in (1)""",
    "key": """drop table kept.events;
        create table kept.events (like pgq.event_template, queue_id int, to_tick bigint)
            partition by list (kept.code(ev_data));
        create table kept.other partition of kept.events default""",
}


@pytest.fixture
def kept(shop: Shop) -> Iterator[Shop]:
    """An archive in `kept.events`, an event that it lacks, and functions beside it."""
    execute = shop.client.connection.execute
    execute("create role stranger; create schema kept")
    try:
        execute(CODE)
        shop.insert("a")
        run(shop, "table:kept.events")
        shop.insert("b")
        yield shop
    finally:
        execute("drop schema kept cascade; drop owned by stranger; drop role stranger")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_code_of_a_role_that_need_not_be_trusted_is_not_run(kept: Shop, call: str) -> None:
    execute = kept.client.connection.execute
    execute(call.encode())
    execute(STRANGERS)
    with pytest.raises(ArchiveMismatch, match=r"uses the function kept\.code.* of role stranger"):
        run(kept, "table:kept.events")
    assert execute("select from kept.events where ev_data = 'b'").fetchall() == []
    execute(STRANGERS.replace("stranger", "current_user").encode())
    assert run(kept, "table:kept.events")[0] == 1, "a trusted role may put code there"


def test_type_of_a_role_that_need_not_be_trusted_is_refused(kept: Shop) -> None:
    kept.client.connection.execute(
        """create domain kept.id as int; alter table kept.events alter queue_id type kept.id;
        alter domain kept.id owner to stranger"""
    )
    with pytest.raises(ArchiveMismatch, match=r"uses the type kept\.id of role stranger"):
        run(kept, "table:kept.events")


def test_cast_with_code_of_a_role_that_need_not_be_trusted_is_refused(kept: Shop) -> None:
    kept.client.connection.execute(
        """create type kept.kind as enum ('placed');
        create function kept.to_kind(text) returns kept.kind language sql
            as $$ select 'placed'::kept.kind $$;
        alter table kept.events alter ev_type type kept.kind using 'placed';
        create cast (text as kept.kind) with function kept.to_kind as assignment;
        alter function kept.to_kind owner to stranger"""
    )
    with pytest.raises(
        ArchiveMismatch, match=r"uses the function kept\.to_kind.* of role stranger"
    ):
        run(kept, "table:kept.events")


def test_rules_are_refused(kept: Shop) -> None:
    kept.client.connection.execute(
        "create rule again as on insert to kept.events do also select kept.code('a')"
    )
    with pytest.raises(ArchiveMismatch, match="has rules"):
        run(kept, "table:kept.events")


def test_a_table_that_is_away_for_a_moment_is_not_fit(kept: Shop) -> None:
    connection = kept.client.connection
    assert find_unfit(connection, "kept", "events") is None
    connection.execute("alter schema kept rename to hidden")
    away = find_unfit(connection, "kept", "events")
    connection.execute("alter schema hidden rename to kept")
    assert away is not None
