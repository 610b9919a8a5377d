"""Child processes: their commands, and what cleans up when this process dies, even by SIGKILL."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

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


STOP_SCRIPT = '"$1" -D "$2" -m immediate -w stop'
REMOVE_SCRIPT = 'rm -rf "$1"'


def start_guard(
    script: str, *arguments: str, then: subprocess.Popen[bytes] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a shell that runs a script when this process dies, even by SIGKILL.

    The shell waits for the end of its standard input, which this process holds open. A line
    written there is `$told` in the script. The guard `then` waits for the end of this one instead.
    """
    follower = then and then.stdin
    guard = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r told; read -r _; {script}", "guard", *arguments],
        stdin=subprocess.PIPE,
        stdout=follower or subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the guard must not receive Ctrl-C
        **options,
    )
    if follower:
        follower.close()
    return guard


class Guard:
    """Stops a PostgreSQL server and then removes its directory.

    These are two processes: `options` make another user stop the server, who could not remove the
    directory of the user that made it.
    """

    def __init__(self, pg_ctl: str, cluster: str, directory: str, **options: Any) -> None:
        """Start both; each waits."""
        self._remover = start_guard(REMOVE_SCRIPT, directory)
        self._stopper = start_guard(STOP_SCRIPT, pg_ctl, cluster, then=self._remover, **options)

    def end(self) -> None:
        """Stop the server and remove its directory now, and wait for that; twice is safe."""
        self._stopper.communicate()
        self._remover.wait()
