"""Examples that no page runs do what they say."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.docs.markdown import Block, blocks
from tests.docs.transcript import Shell
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from pathlib import Path

SHOP = {str(name) for name in files("examples/shop/*.py")}
COUNT = """
$ pgqpy queue create orders
$ pgqpy consumer register orders count
$ pgqpy ticker run &
$ python load_orders.py
10,000 events loaded
$ python count_async.py
a batch with 10,000 loaded
^C
"""
HERE = {"examples/shop/load_orders.py", "examples/shop/count_async.py"}


def test_every_example_of_the_shop_is_run() -> None:
    assert {block.note for block in blocks("docs/tutorial.md", "python")} | HERE == SHOP


def test_many_orders_are_loaded_and_counted(dsn: str, tmp_path: Path) -> None:
    for name in HERE:
        shutil.copy(ROOT / name, tmp_path)
    with Shell(tmp_path, dsn) as shell:
        shell.run(Block("examples", 0, "console", "", COUNT.strip()))
