"""`pgqpy capture ddl`, a snapshot into a mirror, and the example."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pgqpy.cli.app import app
from tests.mirror.conftest import ITEM, QUEUE
from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

WIDE = """
    create schema "My Shop";
    create table "My Shop"."Line" (
        "Order" bigint generated always as identity, no varchar(7), price numeric(10,2) not null,
        twice numeric generated always as (price * 2) stored, tags text[] default '{}',
        placed timestamptz(3), primary key (no, "Order"))"""


@pytest.fixture
def command(shop) -> Callable[..., str]:
    """Run `pgqpy capture …`, and return what it prints."""

    def run(*args: str) -> str:
        done = CliRunner().invoke(app, ["capture", *args, "--dsn", shop.dsn], prog_name="pgqpy")
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def test_the_printed_tables_fit_a_mirror(shop, command):
    shop.capture('"My Shop"."Line"', WIDE, mirrored=False)
    shop.capture("public.item", ITEM, mirrored=False)
    printed = command("ddl", '"My Shop"."Line"', "public.item")
    assert (
        printed
        == """\
create schema if not exists "My Shop";
create table "My Shop"."Line" (
    "Order" bigint not null,
    no character varying(7) not null,
    price numeric(10,2) not null,
    twice numeric,
    tags text[],
    placed timestamp(3) with time zone,
    primary key (no, "Order")
);
create table public.item (
    id integer not null,
    name text,
    price numeric,
    primary key (id)
);
"""
    )
    shop.target.execute(printed.encode())
    shop.source.execute("""
        insert into "My Shop"."Line" (no, price, placed) values ('a', 1.5, now()), ('b', 2, null);
        insert into item values (1, 'a', 1)""")
    shop.run()
    shop.assert_same('"My Shop"."Line"')
    shop.assert_same("item")


def test_a_table_that_is_not_captured_has_no_ddl(shop):
    shop.source.execute(ITEM)
    args = ["capture", "ddl", "public.item", "--dsn", shop.dsn]
    done = CliRunner().invoke(app, args, prog_name="pgqpy")
    assert done.exit_code != 0
    assert "is not captured" in str(done.exception) + done.output


def test_a_snapshot_and_the_changes_beside_it_make_the_same_table(shop, command, connect):
    shop.source.execute(ITEM)
    shop.source.execute("insert into item select n, 'old', n from generate_series(1, 20000) n")
    shop.target.execute(ITEM)
    command("add", "public.item", "--queue", QUEUE)
    done = threading.Event()
    rounds = 0

    def write() -> None:
        nonlocal rounds
        writer = connect()
        while not done.is_set():
            rounds += 1
            writer.execute("update item set price = price + 1 where id %% 997 = %s", [rounds % 997])
            writer.execute("delete from item where id = %s", [rounds])
            writer.execute("insert into item values (%s, 'new', 0)", [20000 + rounds])
            writer.execute("update item set id = -id where id = %s", [20000 - rounds])

    thread = threading.Thread(target=write)
    with shop.running():
        thread.start()
        eventually(lambda: rounds > 1)
        try:
            command("snapshot", "public.item")
        finally:
            done.set()
            thread.join()
        shop.wait()
    shop.assert_same("item")
    assert rounds > 2


def test_the_example_runs(shop, command, spawn):
    shop.capture("public.item", ITEM)
    shop.source.execute("insert into item values (1, 'a', 1)")
    environment = {"PGQPY_SOURCE": shop.dsn, "PGQPY_TARGET": shop.target_dsn}
    process = spawn(str(ROOT / "examples" / "mirror.py"), env=environment)
    tick = shop.tick()

    def applied() -> bool:
        assert process.popen.poll() is None, process.output()
        return shop.position() == tick

    eventually(applied)
    assert process.terminate() == 0, process.output()
    shop.assert_same("item")
