"""Child processes of a demo or simulation: none is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import PythonProcess

PARENT = """
import os, pathlib, sys
from pgqpy.sandbox.processes import Child
command = ["sh", "-c", "sleep 600 & echo $!; wait"]
child = Child("child", command, os.environ, pathlib.Path(sys.argv[1]))
print("started", flush=True)
child.wait(600)
"""


def test_what_a_child_has_started_is_killed_with_it_if_the_parent_is_killed(
    spawn: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    parent = spawn("-c", PARENT, str(tmp_path))
    parent.wait_for_output("started")
    grandchild = psutil.Process(int(eventually((tmp_path / "child.log").read_text)))
    try:
        parent.kill()
        eventually(lambda: not grandchild.is_running())
    finally:
        if grandchild.is_running():
            grandchild.kill()
