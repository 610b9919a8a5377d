"""Processes that clean up when the process that started them dies, even by SIGKILL."""

from __future__ import annotations

import subprocess
from typing import Any

STOP_SCRIPT = '"$1" -D "$2" -m immediate -w stop'
REMOVE_SCRIPT = 'rm -rf "$1"'


def start_guard(
    script: str, *arguments: str, then: subprocess.Popen[bytes] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a shell that runs a script when this process dies, even by SIGKILL.

    The shell waits for the end of its standard input, which this process holds open. The guard
    `then` waits for the end of this one instead.
    """
    follower = then and then.stdin
    guard = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; {script}", "guard", *arguments],
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
