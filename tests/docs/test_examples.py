"""Every example runs, and does what it says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import psycopg

from tests.docs.markdown import Block
from tests.docs.transcript import Shell
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from pathlib import Path

SHOP = {name.name for name in files("examples/shop/*.py")}
PREPARE = """
$ pgqpy schema install
$ pgqpy queue create orders
$ pgqpy consumer register orders revenue
$ pgqpy consumer register orders count
$ pgqpy ticker run &
"""
PRODUCE = """
$ python place_orders.py
ann placed order 1
bob placed order 2
cid placed order 3
$ python place_order_sqlalchemy.py
dee placed order 4
"""
REVENUE = """
$ pgqpy consumer run revenue:Revenue
ann has spent 12.50
bob has spent 99.00
cid has spent 7.00
dee has spent 30.00
^C
"""
COUNT = """
$ python load_orders.py
10,000 events loaded
$ python count_async.py
a batch with 10,000 loaded
^C
"""
BY_THE_README = {"place_orders.py", "place_order_sqlalchemy.py", "billing.py"}
HERE = {"revenue.py", "load_orders.py", "count_async.py"}


def test_every_example_is_run() -> None:
    assert BY_THE_README | HERE == SHOP


def test_the_examples_do_what_they_say(empty_dsn: str, tmp_path: Path) -> None:
    for name in SHOP:
        shutil.copy(ROOT / "examples" / "shop" / name, tmp_path)
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("create table revenue (customer text primary key, total numeric)")
    with Shell(tmp_path, empty_dsn) as shell:
        for script in (PREPARE, PRODUCE, REVENUE, COUNT):
            shell.run(Block("examples", 0, "console", "", script.strip()))
    with psycopg.connect(empty_dsn) as connection:
        total = connection.execute("select sum(total)::text from revenue").fetchone()
    assert total == ("148.50",)
