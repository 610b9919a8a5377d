"""Signals between the parts of a running consumer: not errors that a caller sees."""

from __future__ import annotations


class HandlerFailed(Exception):
    """A handler raised; `error` is what. Wrapped, so that it is taken for nothing else.

    `collided`: it is the consumer's own transaction that collided, and may simply be repeated.
    """

    def __init__(self, error: Exception, *, collided: bool = False) -> None:
        super().__init__(repr(error))
        self.error = error
        self.collided = collided


class StopRequested(Exception):
    """`stop()` was called while the consumer was waiting to start."""


class Redo(Exception):
    """The transaction is to be rolled back and the batch done again.

    `careful`: with a savepoint around each event, to find the one that fails.
    """

    def __init__(self, *, careful: bool) -> None:
        super().__init__("again")
        self.careful = careful
