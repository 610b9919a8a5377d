"""The start of a thread that a session needs. A system that has no more is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.errors import ConnectionFailed

if TYPE_CHECKING:
    import threading


def start_thread(thread: threading.Thread) -> None:
    """Start a thread; ConnectionFailed if the system has none left: try again later."""
    try:
        thread.start()
    except RuntimeError as error:
        raise ConnectionFailed(f"this process gets no more threads: {error}") from error
