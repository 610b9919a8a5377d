"""Classes of errors: lost connections and collisions; a count of losses per event."""

from __future__ import annotations

import psycopg
from psycopg import errors

from pgqpy.errors import ConnectionFailed

MOST_LOSSES = 3  # at one event in a row

COLLISIONS = (errors.SerializationFailure, errors.DeadlockDetected)


def is_collision(error: BaseException) -> bool:
    """Say whether the transaction collided with another one and may simply be repeated."""
    return isinstance(error, COLLISIONS)


def is_loss(error: BaseException) -> bool:
    """Say whether a new connection may help.

    OperationalError is what psycopg makes of a lost connection, a server that shuts down, starts
    or is full, a cancelled statement. A standby refuses to write with 25006 (after a failover).
    """
    lost = (ConnectionFailed, psycopg.OperationalError, psycopg.InterfaceError)
    return isinstance(error, (*lost, errors.ReadOnlySqlTransaction)) and not is_collision(error)


def is_session_lost(error: BaseException) -> bool:
    """Say whether a session that was open has ended.

    The server says so with 57P01 (an administrator ended it) and its neighbours, or with 08...;
    what psycopg finds out by itself has no SQLSTATE.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


class LossCounter:
    """Counts how often in a row the connection was lost in, or after, the handler of an event.

    Once is an outage. An event that loses the connection whenever it is handled (it ends the
    server process, say, or sets a short timeout) would hold the consumer up for ever.
    """

    def __init__(self) -> None:
        self._event_id: int | None = None
        self._losses = 0

    def lost_at(self, event_id: int) -> None:
        """Note that the connection was lost while this event was the last one handled."""
        self._losses = self._losses + 1 if event_id == self._event_id else 1
        self._event_id = event_id

    @property
    def begun(self) -> bool:
        """Whether the connection was lost since a batch was finished."""
        return self._losses > 0

    @property
    def exceeded(self) -> bool:
        """Whether an event has lost the connection too often to be handled once more."""
        return self._losses >= MOST_LOSSES

    def failure_of(self, event_id: int) -> BaseException | None:
        """Return what the event failed with, if it is the one that loses the connection."""
        if not self.exceeded or event_id != self._event_id:
            return None
        text = f"the connection was lost in or after its handler {self._losses} times"
        return ConnectionFailed(text)

    def clear(self) -> None:
        """Forget it: its batch was finished."""
        self._event_id, self._losses = None, 0
