"""[Generated from _async/cron.py by tools/unasync.py: edit that file, not this one.] The part of the client for cron entries: events by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from pgqpy.calls import Payload
    from pgqpy.calls.cron import Missed
    from pgqpy.records import CronEntry


class Cron(Base):
    """Adds and changes cron entries, which needs the role pgq_admin; lists them to everybody."""

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

    def pause_cron(self, name: str) -> int:
        """Stop a cron entry until `resume_cron`: 1, or 0 if it was paused. Raises NotFound."""
        return self.runner.run(calls.cron.pause_cron(name))

    def resume_cron(self, name: str) -> int:
        """End the pause of a cron entry: 1, or 0 if it was not paused. Raises NotFound.

        The times in the pause are not made up for.
        """
        return self.runner.run(calls.cron.resume_cron(name))

    def run_cron(self, name: str) -> int:
        """Insert the event of a cron entry now, paused or not; return the event's id.

        The schedule goes on as if nothing had happened. Raises NotFound, QueueRefused.
        """
        return self.runner.run(calls.cron.run_cron(name))

    def get_cron_info(self, name: str | None = None) -> list[CronEntry]:
        """Return one cron entry, or all; empty if there is none."""
        return self.runner.run(calls.cron.get_cron_info(name))

    def fire_cron(
        self,
        name: str,
        version: UUID,
        due: datetime | None,
        time: datetime | None,
        next_due: datetime,
    ) -> int | None:
        """Insert the event of a planned time and plan the next: for tickers (pgq_ticker).

        `due` is the entry's `next_due`, `time` the event's time (None: no event). Returns the
        event's id; None if another ticker was faster, or the entry has changed.
        """
        return self.runner.run(calls.cron.fire_cron(name, version, due, time, next_due))
