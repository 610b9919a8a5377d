"""A run of the archive, in a process of its own, that waits at gates: `python gated.py DSN …`.

Its file system is a local folder that the store takes for a remote one. Before each step, it waits
for an advisory lock of the test: so the test kills it at exactly that step.
"""

from __future__ import annotations

import sys
from typing import Any

import fsspec
import psycopg
from fsspec.implementations.local import LocalFileSystem

STEPS = {"copy": 101, "rename": 102, "renamed": 103, "read back": 104}


class GatedFileSystem(LocalFileSystem):  # type: ignore[misc]  # it ships no types
    """A local folder with gates."""

    protocol = "gated"
    gates: Any = None
    stored = ""  # the path of the last file

    def _wait(self, step: str) -> None:
        if self.gates is not None:
            self.gates.execute("select pg_advisory_xact_lock_shared(%s)", [STEPS[step]])

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if "w" in mode:
            self._wait("copy")
        elif path == self.stored:
            self._wait("read back")
        return super()._open(path, mode, **kwargs)

    def mv(self, path1: str, path2: str, *args: Any, **kwargs: Any) -> None:
        self._wait("rename")
        super().mv(path1, path2, *args, **kwargs)
        self.stored = path2
        self._wait("renamed")


fsspec.register_implementation("gated", GatedFileSystem, clobber=True)


def main(dsn: str, location: str) -> None:
    """Archive the queue `orders`."""
    from pgqpy.archive.run import ArchiveOptions, run_archive
    from pgqpy.archive.store import Store

    GatedFileSystem.gates = psycopg.connect(dsn, autocommit=True)
    run_archive(ArchiveOptions("orders"), Store(location), dsn, lambda _: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
