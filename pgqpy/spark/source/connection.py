"""The stream's connection in the driver: its lock, its notifications, its way back after a loss."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from pgqpy.consumers._sync_lock import RunningLock
from pgqpy.consumers._sync_session import Session
from pgqpy.consumers.loss import is_loss
from pgqpy.consumers.waiting import Wakeup, take_notifications
from pgqpy.spark.connect import check_schema, persistent, why_and_pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from pgqpy.client import Client
    from pgqpy.spark.database import Place

T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")


class Link:
    """One session of one consumer. Nobody else runs this consumer while it is open.

    `attach` is called with each new session before the lock is taken: the subscription has to be
    there.
    """

    def __init__(
        self, place: Place, queue: str, consumer: str, attach: Callable[[Client], None]
    ) -> None:
        self._place = place
        self._queue = queue
        self._consumer = consumer
        self._attach = attach
        self._lock = RunningLock(queue, consumer)
        self._session: Session | None = None
        self._connected = False  # ever
        self._notified = True

    def call(self, action: Callable[[Client], T]) -> T:
        """Run something that may safely be run twice: again on a new connection if one is lost.

        Raises:
            ConnectionFailed: at the first time at once, later after `PATIENCE` seconds;
            ConsumerRunning: somebody else runs the consumer.
        """
        return persistent(self._may_come_back, self._lose)(lambda: action(self._open()))

    def notified(self) -> bool:
        """Say whether a tick was announced since the last call. Asks no SQL, and never waits."""
        session = self._session
        if session is None:
            return True
        try:
            if take_notifications(session.connection.pgconn):
                self._notified = True
        except Exception as error:
            if not is_loss(error):
                raise
            return True  # whoever asks SQL now finds out
        notified, self._notified = self._notified, False
        return notified

    def close(self) -> None:
        """Close the connection, which lets the lock go; closing twice is safe."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _may_come_back(self, error: BaseException) -> bool:
        return self._connected and is_loss(error)

    def _lose(self, state: RetryCallState) -> None:
        why, pause = why_and_pause(state)
        logger.warning(
            "queue %s, consumer %s: %s: again in %.1f s", self._queue, self._consumer, why, pause
        )
        self.close()

    def _open(self) -> Client:
        if self._session is None:
            session = Session.open(self._place.dsn, f"pgqpy spark {self._consumer}")
            try:
                self._set_up(session)
            except BaseException:
                session.close()
                raise
            self._session, self._connected = session, True
        return self._session.client

    def _set_up(self, session: Session) -> None:
        check_schema(session.client)
        self._attach(session.client)
        self._lock.take(session, Wakeup())
        session.connection.add_notify_handler(self._note)
        session.listen(self._queue)
        self._notified = True

    def _note(self, _notification: object) -> None:
        self._notified = True
