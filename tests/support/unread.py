"""Pipes, sockets and terminals that are full because nobody reads them."""

from __future__ import annotations

import os
from contextlib import suppress


def fill(descriptor: int) -> int:
    """Leave no room in it; return how many bytes were written."""
    os.set_blocking(descriptor, False)
    written = 0
    for size in (4096, 1):
        with suppress(BlockingIOError):
            while True:
                written += os.write(descriptor, b"." * size)
    os.set_blocking(descriptor, True)
    return written


def fill_stderr(pid: int) -> None:
    """Leave no room in the pipe that is the standard error of a process."""
    pipe = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY)
    fill(pipe)
    os.close(pipe)
