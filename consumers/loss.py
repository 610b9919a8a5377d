"""Which errors mean a lost connection, or a collision to repeat: by class and SQLSTATE."""

from __future__ import annotations

import psycopg
from psycopg import errors

from pgqpy.errors import ConnectionFailed

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
