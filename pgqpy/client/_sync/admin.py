"""[Generated from _async/admin.py by tools/unasync.py: edit that file, not this one.] The part of the client for administrators: queues, consumers, configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from pgqpy.calls import Setting
    from pgqpy.records import (
        ConsumerCounts,
        ConsumerInfo,
        QueueInfo,
        QueueMetrics,
        RetryCount,
        WorkerInfo,
    )


class Managing(Base):
    """Manages queues, which needs the role pgq_admin; reports their state to everybody."""

    def create_queue(self, queue: str) -> int:
        """Create a queue with its tables and first tick: 1 created, 0 there already.

        Its name has at most 59 octets and no control characters; else InvalidArgument is raised.
        PGQ create_queue.
        """
        return self.runner.run(calls.admin.create_queue(queue))

    def drop_queue(self, queue: str, force: bool = False) -> int:  # noqa: FBT001, FBT002  # PGQ's
        """Drop a queue with its events; with `force` also its consumers. PGQ drop_queue.

        Raises QueueNotFound, and QueueInUse if it has consumers, without `force`.
        """
        return self.runner.run(calls.admin.drop_queue(queue, force=force))

    def set_queue_config(self, queue: str, param: str, value: Setting) -> int:
        """Change one setting of a queue. PGQ set_queue_config.

        `param` is ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused,
        rotation_period, external_ticker, …: a column of pgq.queue without `queue_`. `value` is SQL
        text, or the int, bool or timedelta that says the same.

        Raises:
            QueueNotFound; InvalidArgument: no such setting, None, or a value of the wrong kind.
        """
        return self.runner.run(calls.admin.set_queue_config(queue, param, value))

    def get_queue_info(self, queue: str | None = None) -> list[QueueInfo]:
        """Return the settings and the state of one queue, or of all; empty if there is none.

        PGQ get_queue_info.
        """
        return self.runner.run(calls.admin.get_queue_info(queue))

    def get_queue_metrics(self, queue: str | None = None) -> list[QueueMetrics]:
        """Return how many events one queue keeps, or each of all: since when, in how many bytes.

        It reads no event, so it costs the same however many there are.
        """
        return self.runner.run(calls.admin.get_queue_metrics(queue))

    def get_consumer_info(
        self, queue: str | None = None, consumer: str | None = None
    ) -> list[ConsumerInfo]:
        """Return the positions of consumers: of one queue, by one name, or all.

        PGQ get_consumer_info.
        """
        return self.runner.run(calls.admin.get_consumer_info(queue, consumer))

    def get_consumer_counts(self, limit: int | None = 10_000) -> list[ConsumerCounts]:
        """Count each consumer's events in the retry queue, and its dead events.

        Each number is counted up to `limit`, so a million of them cost little; None: all.
        """
        return self.runner.run(calls.admin.get_consumer_counts(limit))

    def get_retry_counts(
        self, queue: str, consumer: str, limit: int | None = 10_000
    ) -> list[RetryCount]:
        """Count a consumer's events in the retry queue by when they are due, the soonest first.

        At most `limit` events are counted; None: all. Raises ConsumerNotFound.
        """
        return self.runner.run(calls.admin.get_retry_counts(queue, consumer, limit))

    def get_worker_info(
        self, queue: str | None = None, consumer: str | None = None
    ) -> list[WorkerInfo]:
        """Return who works for each consumer, and on what: of one queue, of one name, or all.

        First the consumer itself, whose `worker` is None, then the workers of a shared one.
        """
        return self.runner.run(calls.admin.get_worker_info(queue, consumer))

    def repair_queue(self, queue: str) -> int:
        """Make a queue usable again after a restore where transaction ids are smaller.

        Raises QueueNotFound.
        """
        return self.runner.run(calls.admin.repair_queue(queue))

    def schema_version(self) -> int | None:
        """Return the version of the schema's tables; None with the extension pgq.

        Raises SchemaMissing if there is no schema pgq at all.
        """
        if self.runner.is_extension():
            return None
        return self.runner.run(calls.admin.schema_version())
