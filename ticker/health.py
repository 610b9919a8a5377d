"""The state of each database for /healthz: role, reason, age of the last successful poll."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

FAILED_RUNS = 2  # in a row make a duty a failing one: a single run may fail behind a lock
SLOW_DUTY = 300.0  # seconds; a duty that never ends would stop rotation or retries unnoticed

Role = Literal["connecting", "standby", "active", "refused"]


@dataclass(slots=True)
class Health:
    """The state of one database.

    The thread of its loop writes, other threads read; each field is read and written atomically.
    The duties write `running`; they and the loop write `failed_runs`, each its own key. A change of
    role clears it.
    """

    database: str
    role: Role = "connecting"
    reason: str | None = None
    # The last successful poll, and the last one without a failing queue; at first the start.
    polled_at: float = field(default_factory=time.monotonic)
    completed_at: float = field(default_factory=time.monotonic)
    alive_at: float = field(default_factory=time.monotonic)  # the last round of the loop
    failing: tuple[str, ...] = ()
    running: dict[str, float] = field(default_factory=dict)  # when each running duty began
    failed_runs: dict[str, int] = field(default_factory=dict)  # how many in a row, by duty

    def polled(self, now: float) -> None:
        """Record a successful poll: changed queues were ticked, or (standby) the lock was tried."""
        self.polled_at = self.alive_at = now
        if not self.failing:
            self.completed_at = now

    def change(self, role: Role, reason: str | None = None) -> None:
        """Change the role; `reason` says why the database is not served."""
        self.role, self.reason = role, reason
        if role != "active":
            self.failing = ()
            self.failed_runs.clear()
        self.alive_at = time.monotonic()

    def poll_age(self, now: float) -> float:
        """Return the seconds since the last successful poll, or since the start."""
        return max(0.0, now - self.polled_at)

    def complete_poll_age(self, now: float) -> float:
        """Return the seconds since the last poll that ticked all changed queues."""
        return max(0.0, now - self.completed_at)

    def duty_ran(self, duty: str, *, failed: bool) -> None:
        """Record a run of a duty."""
        if failed:
            self.failed_runs[duty] = self.failed_runs.get(duty, 0) + 1
        else:
            self.failed_runs.pop(duty, None)

    def failing_duties(self) -> list[str]:
        """Return the duties whose last runs failed, sorted."""
        return sorted(d for d, runs in self.failed_runs.copy().items() if runs >= FAILED_RUNS)

    def slow_duties(self, now: float) -> list[str]:
        """Return the duties that have been running for longer than SLOW_DUTY."""
        return [duty for duty, since in self.running.copy().items() if now - since > SLOW_DUTY]

    def report(self, now: float, limit: float) -> dict[str, Any]:
        """Return this database's part of /healthz; a standby is served by the active daemon."""
        healthy = self.role in ("active", "standby") and self.poll_age(now) < limit
        no_answer = f"no answer from the database for {self.poll_age(now):.1f} s"
        return {
            "healthy": healthy,
            "role": self.role,
            "last_poll_age_seconds": round(self.poll_age(now), 3),
            "failing_queues": list(self.failing),
            "failing_duties": self.failing_duties(),
            "slow_duties": self.slow_duties(now),
            "reason": self.reason or (None if healthy else no_answer),
        }


def overall(states: list[Health], now: float, limit: float) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and body of /healthz: 200 only if every database is served.

    Failing queues, and duties that fail or do not end, make the status `degraded`, still with 200:
    a restart of the daemon would not help them, and would interrupt the others.
    """
    databases = {state.database: state.report(now, limit) for state in states}
    healthy = all(part["healthy"] for part in databases.values())
    degraded = any(
        part[what]
        for part in databases.values()
        for what in ("failing_queues", "failing_duties", "slow_duties")
    )
    status = "unhealthy" if not healthy else "degraded" if degraded else "ok"
    return 200 if healthy else 503, {"status": status, "databases": databases}
