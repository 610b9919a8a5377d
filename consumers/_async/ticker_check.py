"""The check whether a ticker runs, of a consumer that gets no batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from pgqpy.calls import admin
from pgqpy.consumers.connection_errors import is_collision
from pgqpy.consumers.missing_ticker import MissingTicker

if TYPE_CHECKING:
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer

logger = logging.getLogger("pgqpy.consumers")


class AsyncTickerCheck(MissingTicker):
    """Asks for the state of the queue when it is time to, and warns."""

    async def check(self, consumer: BaseConsumer, session: AsyncSession) -> None:
        """Warn if no ticker seems to run."""
        try:
            found = await session.runner.run(admin.get_queue_info(consumer.queue))
        except psycopg.Error as error:
            if is_collision(error):
                return  # with a compaction: the next check will do
            raise
        reason = self.warning(found)
        if reason:
            text = (
                "no ticker seems to run, so consumer %s of queue %s gets nothing (%s): "
                "start one with `pgqpy ticker run`"
            )
            logger.warning(text, consumer.name, consumer.queue, reason)
