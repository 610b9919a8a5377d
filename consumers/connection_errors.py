"""Classes of errors: lost connections and collisions; a count of losses per event."""

from __future__ import annotations

import psycopg
from psycopg import errors

from pgqpy.errors import ConnectionFailed

MOST_LOSSES = 3  # at one event in a row


def is_collision(error: BaseException) -> bool:
    """Say whether the transaction collided with another one and may simply be repeated."""
    return isinstance(error, (errors.SerializationFailure, errors.DeadlockDetected))


def is_loss(error: BaseException) -> bool:
    """Say whether a new connection may help.

    psycopg raises OperationalError for a lost connection, a server that shuts down, starts or is
    full, and a cancelled statement. A standby refuses to write with 25006 (after a failover).
    """
    lost = (ConnectionFailed, psycopg.OperationalError, psycopg.InterfaceError)
    return isinstance(error, (*lost, errors.ReadOnlySqlTransaction)) and not is_collision(error)


def is_session_lost(error: BaseException) -> bool:
    """Say whether a session that was open has ended.

    The server sends 57P01 (an administrator ended it) and similar codes, or 08...; a loss that
    psycopg itself detects has no SQLSTATE.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


class LossCounter:
    """Counts how often in a row the connection was lost in, or after, the handler of an event.

    Once is an outage. An event that loses the connection each time (its handler ends the server
    process, say, or sets a short timeout) would stop the consumer for ever.
    """

    def __init__(self) -> None:
        self._event_id: int | None = None
        self._losses = 0

    def lost_at(self, event_id: int) -> None:
        """Count a loss of the connection; this event was the last one handled."""
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
        """Return the error for an event that lost the connection too often, None for others."""
        if not self.exceeded or event_id != self._event_id:
            return None
        text = f"the connection was lost in or after its handler {self._losses} times"
        return ConnectionFailed(text)

    def clear(self) -> None:
        """Count from 0 again: a batch was finished."""
        self._event_id, self._losses = None, 0
