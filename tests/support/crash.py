"""Crash a server as a power cut would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer


def kill_server(server: EmbeddedServer) -> None:
    """SIGKILL the postmaster and all its children, and wait until they are gone."""
    postmaster = psutil.Process(server.pid)
    postmaster.suspend()  # so that it can neither restart its children nor end without them
    doomed = [*postmaster.children(recursive=True), postmaster]
    for process in doomed:
        process.kill()
    psutil.wait_procs(doomed, timeout=30)


def kill_backend(pid: int) -> None:
    """SIGKILL one backend: the server then restarts all the others."""
    psutil.Process(pid).kill()
