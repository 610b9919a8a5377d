"""A log on standard error that does not make the process wait for its reader."""

from __future__ import annotations

import io
import math
import os
import select
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

PATIENCE = 1.0  # seconds that it waits for a reader, at most
REFILL = 0.05  # seconds of patience that come back in a second
PIECE = getattr(select, "PIPE_BUF", 512)  # bytes that a pipe takes at once when a poll finds room


class LogStream:
    """A text stream for a log that loses entries rather than wait for long.

    A process whose standard error is a pipe, a socket or a terminal waits in write() while nobody
    reads: Ctrl-S, a pager, a supervisor that hangs. Here an entry that finds no room during the
    patience is lost, and so is each later one, at once, until there is room again: then an entry
    says how many were lost. What remains of an entry that was written in part ends with a line of
    its own.

    A thread that writes would lose the last entries of a process that is killed, and a child that
    a handler forks does not have it. O_NONBLOCK on the descriptor would reach all processes that
    share it. A poll before each write is not enough: another process may take the room first, and a
    terminal may have room for a part. So a pipe or terminal is opened anew for each entry,
    non-blocking. What cannot be opened (a socket; without /proc, or as another user) is polled,
    before each piece of PIPE_BUF bytes.
    """

    def __init__(self, stream: TextIO | None, notice: Callable[[int], str]) -> None:
        """Write to `stream`, such as sys.stderr; `notice` makes the line that tells of losses.

        A stream without a descriptor, or of a file, is written to as it is. Errors are suppressed.
        """
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._notice = notice
        self._lost = 0  # entries since the last one that was written
        self._torn = False  # the last thing that was written is a part of an entry
        self._patience = PATIENCE
        self._refilled = time.monotonic()
        self._owner, self._lock = os.getpid(), threading.RLock()

    def write(self, text: str) -> None:
        """Write an entry of one or more lines, or lose it."""
        with self._own_lock():
            if self._stream is None:
                return
            descriptor = _waiting_descriptor(self._stream)
            if descriptor is None:
                with suppress(OSError, ValueError):  # the disk is full; the file is closed
                    self._stream.write(text)
                    self._stream.flush()
                return
            try:
                if self._lost:
                    self._send(descriptor, f"{self._notice(self._lost)}\n")
                    self._lost = 0
                self._send(descriptor, text)
            except OSError:  # nobody reads, or the reader has gone
                self._lost += 1

    def replace_stderr(self) -> LogStream:
        """Write here what others write to sys.stderr: warnings, tracebacks of threads, print().

        Where nothing has to wait, such as for a file, sys.stderr stays what it is.
        """
        if self._stream is not None and _waiting_descriptor(self._stream) is not None:
            octets = _LogBytes(self, self._stream, self._encoding)
            sys.stderr = io.TextIOWrapper(
                octets, self._encoding, "backslashreplace", line_buffering=True
            )
        return self

    def _own_lock(self) -> threading.RLock:
        """Return the lock; a new one in a forked child, where its holder may not exist.

        It is reentrant: the handler of a signal may log, too.
        """
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.RLock()
        return self._lock

    def _send(self, descriptor: int, text: str) -> None:
        """Write all of it; raises OSError, BlockingIOError too."""
        data = text.encode(self._encoding, "backslashreplace")
        if self._torn:
            data = b"\n" + data
        own = open_anew(descriptor)
        try:
            if own is None:
                self._write_all(descriptor, data, PIECE)
            else:
                self._write_all(own, data, None)
        finally:
            if own is not None:
                os.close(own)

    def _write_all(self, descriptor: int, data: bytes, size: int | None) -> None:
        """Write in pieces of `size` bytes; None: as many as there is room for."""
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        now = time.monotonic()
        earned = (now - self._refilled) * REFILL
        self._patience, self._refilled = min(PATIENCE, self._patience + earned), now
        deadline = now if self._lost else now + self._patience
        while data:
            left = max(0.0, deadline - time.monotonic())
            try:
                written = self._write_some(poll, left, descriptor, data[:size])
            except BlockingIOError:
                if not left:
                    raise
                continue
            data = data[written:]
            self._torn = bool(data)

    def _write_some(self, poll: select.poll, left: float, descriptor: int, piece: bytes) -> int:
        began = time.monotonic()
        ready = poll.poll(math.ceil(left * 1000))
        self._patience = max(0.0, self._patience - (time.monotonic() - began))
        if not ready:
            raise BlockingIOError
        return os.write(descriptor, piece)


class _LogBytes(io.RawIOBase):
    """The bytes under the text stream in place of sys.stderr: each write is an entry of the log."""

    name = "<stderr>"

    def __init__(self, log: LogStream, stream: TextIO, encoding: str) -> None:
        self.log = log
        self._stream, self._encoding = stream, encoding

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, data: Buffer) -> int:
        octets = bytes(data)
        self.log.write(octets.decode(self._encoding, "backslashreplace"))
        return len(octets)


def stderr_log(notice: Callable[[int], str]) -> LogStream:
    """Return the log that has replaced sys.stderr, else a new one over it."""
    below = getattr(sys.stderr, "buffer", None)
    return below.log if isinstance(below, _LogBytes) else LogStream(sys.stderr, notice)


def _waiting_descriptor(stream: TextIO) -> int | None:
    """Return the descriptor of a stream whose writer may have to wait for a reader."""
    if not hasattr(select, "poll"):  # on Windows
        return None
    with suppress(OSError, ValueError, AttributeError):  # closed, or in memory
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode):
            return descriptor
    return None


def open_anew(descriptor: int) -> int | None:
    """Open the pipe or terminal of a descriptor once more, non-blocking; None: that is impossible.

    Linux only: on other systems, to open such a name duplicates the descriptor.
    """
    if not hasattr(os, "O_NONBLOCK"):  # on Windows
        return None
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            # A worker leads a session: without O_NOCTTY the terminal would become that of it.
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return None
