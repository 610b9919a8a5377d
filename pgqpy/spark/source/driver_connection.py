"""The driver's connection for one consumer, which holds the consumer's running lock."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from pgqpy.consumers.for_tools import RunningLock, Session, Wakeup, is_loss, take_notifications
from pgqpy.spark.connections import error_and_delay, retrying

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from pgqpy.client import Client
    from pgqpy.spark.connections import Database


logger = logging.getLogger("pgqpy.spark")

T = TypeVar("T")
OWN_NAME = "or give this one a name of its own (option consumer)"


class DriverConnection:
    """The driver's connection for one consumer. It holds the consumer's running lock while open.

    `attach` is called with each new session before the lock is taken. It makes sure that the
    subscription exists, because the lock is the subscription's. `or_else` is that of `RunningLock`.
    """

    def __init__(
        self,
        database: Database,
        queue: str,
        consumer: str,
        attach: Callable[[Client], None],
        or_else: str = OWN_NAME,
    ) -> None:
        self._database = database
        self._queue = queue
        self._consumer = consumer
        self._attach = attach
        self._lock = RunningLock(queue, consumer, or_else)
        self._session: Session | None = None
        self._connected = False  # has connected at least once
        self._notified = True

    def call(self, action: Callable[[Client], T]) -> T:
        """Run `action`, which must be safe to repeat; reconnect and repeat it after a loss.

        Raises:
            ConnectionFailed: the first connection failed, or a lost one did not come back within
                `RETRY_TIMEOUT` seconds.
            ConsumerRunning: another program runs the consumer.
        """
        return retrying(self._is_retryable, self._log_and_close)(lambda: action(self._open()))

    def notified(self) -> bool:
        """Return whether a tick was notified since the last call. Runs no SQL and never waits."""
        session = self._session
        if session is None:
            return True
        try:
            if take_notifications(session.connection.pgconn):
                self._notified = True
        except Exception as error:
            if not is_loss(error):
                raise
            return True  # the next call() finds the lost connection
        notified, self._notified = self._notified, False
        return notified

    def close(self) -> None:
        """Close the connection, which releases the lock. Closing twice is safe."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _is_retryable(self, error: BaseException) -> bool:
        return self._connected and is_loss(error)

    def _log_and_close(self, state: RetryCallState) -> None:
        error, delay = error_and_delay(state)
        message = "queue %s, consumer %s: %s: trying again in %.1f s"
        logger.warning(message, self._queue, self._consumer, error, delay)
        self.close()

    def _open(self) -> Client:
        if self._session is None:
            session = Session.open(self._database.dsn, f"pgqpy spark {self._consumer}")
            try:
                self._attach(session.client)
                self._lock.take(session, Wakeup())
                session.connection.add_notify_handler(self._on_notification)
                session.listen(self._queue)
                self._notified = True
            except BaseException:
                session.close()
                raise
            self._session, self._connected = session, True
        return self._session.client

    def _on_notification(self, _notification: object) -> None:
        self._notified = True
