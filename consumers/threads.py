"""Starts threads that a session needs. A failure counts as a lost connection: it is retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.errors import ConnectionFailed

if TYPE_CHECKING:
    import threading


def start_thread(thread: threading.Thread) -> None:
    """Start a thread. Raises ConnectionFailed if the system allows no more threads."""
    try:
        thread.start()
    except RuntimeError as error:
        raise ConnectionFailed(f"this process gets no more threads: {error}") from error
