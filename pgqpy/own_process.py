"""The command of a child process that runs a module of pgqpy."""

from __future__ import annotations

import sys

# `python -m` imports from the working directory first. A user who may write there could run code
# with our rights and our DSN. From Python 3.11 on, -P prevents it. PYTHONSAFEPATH would also reach
# the processes that an application starts.
WITHOUT_P = (
    "import sys; del sys.path[0]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def own_process(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of pgqpy; it imports nothing from where it runs."""
    how = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", WITHOUT_P]
    return [sys.executable, *how, module, *arguments]
