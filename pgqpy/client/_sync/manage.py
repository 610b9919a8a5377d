"""[Generated from _async/manage.py by tools/unasync.py: edit that file, not this one.] The part of the client for administrators: queues, cron entries, ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy.calls import Payload, Setting
    from pgqpy.calls.cron import Missed
    from pgqpy.records import ConsumerInfo, CronEntry, QueueInfo, Tick


class Managing(Base):
    """Manages queues and cron entries, which needs the role pgq_admin; lists them to everybody.

    Ticking needs the role pgq_ticker or pgq_admin.
    """

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

    def get_consumer_info(
        self, queue: str | None = None, consumer: str | None = None
    ) -> list[ConsumerInfo]:
        """Return the positions of consumers: of one queue, by one name, or all.

        PGQ get_consumer_info.
        """
        return self.runner.run(calls.admin.get_consumer_info(queue, consumer))

    def add_cron(
        self,
        name: str,
        queue: str,
        type: str | None,
        data: Payload = None,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
        *,
        schedule: str,
        timezone: str = "UTC",
        missed: Missed = "one",
    ) -> int:
        """Have the ticker insert an event at each time of a schedule: 1 added, 0 it was there.

        An entry that is there is changed. It keeps its next due time if the schedule and the time
        zone stay the same, and stays paused if it is: so a deployment may call this each time.

        `schedule` is minute, hour, day of month, month and day of week, with the meaning that cron
        gives them, or @hourly, @daily, …. `missed` says what is done about the times at which no
        ticker ran: `one` event for the last of them, `all` of them (1,000 at most), or `skip`.

        Raises:
            InvalidArgument: no schedule, time zone or policy; `.parameter` says which.
            InvalidEvent: a field cannot be stored.
            QueueNotFound.

            client.add_cron("report", "reports", "build", {"kind": "daily"},
                                  schedule="0 7 * * 1-5", timezone="Europe/Berlin")
        """
        fields = (type, data, extra1, extra2, extra3, extra4)
        call = calls.cron.add_cron(
            *(name, queue, *fields),
            schedule=schedule,
            timezone=timezone,
            missed=missed,
            limit=self._payload_limit,
            default=self._json_default,
        )
        return self.runner.run(call)

    def remove_cron(self, name: str) -> int:
        """Remove a cron entry; its events stay. Raises NotFound."""
        return self.runner.run(calls.cron.remove_cron(name))

    def get_cron_info(self, name: str | None = None) -> list[CronEntry]:
        """Return one cron entry, or all; empty if there is none."""
        return self.runner.run(calls.cron.get_cron_info(name))

    @overload
    def ticker(self) -> int: ...

    @overload
    def ticker(self, queue: str) -> int | None: ...

    @overload
    def ticker(self, queue: str, tick: int, time: datetime, event_seq: int) -> int: ...

    def ticker(
        self,
        queue: str | None = None,
        tick: int | None = None,
        time: datetime | None = None,
        event_seq: int | None = None,
    ) -> int | None:
        """Tick the queues that are due by their settings, and return their number. PGQ ticker.

        With a queue, tick only this one; return its new tick's id, or None. With `tick`, `time`
        (an aware datetime) and `event_seq`, its last event id, store a tick that was taken
        elsewhere (external_ticker). Raises QueueNotFound, QueueRefused, DatabaseRestored,
        WrongTransaction.
        """
        if queue is None:
            return self.runner.run(calls.maintain.ticker())
        if tick is None and time is None and event_seq is None:
            return self.runner.run(calls.maintain.ticker_queue(queue))
        return self.runner.run(calls.maintain.ticker_external(queue, tick, time, event_seq))

    def tick_queue(self, queue: str) -> Tick | None:
        """Tick one queue now, due or not; None if it is gone, paused or ticked elsewhere.

        Raises DatabaseRestored, WrongTransaction.
        """
        return self.runner.run(calls.maintain.tick_queue(queue))

    def force_tick(self, queue: str) -> int | None:
        """Make the queue due for the next `ticker`; return its last tick's id. PGQ force_tick."""
        return self.runner.run(calls.maintain.force_tick(queue))
