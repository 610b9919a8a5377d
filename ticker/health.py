"""What the daemon says of each database: role, reason, age of the last good look."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

SLOW_DUTY = 300.0  # seconds; one that waits for ever would stop rotation, or retries, unseen

Role = Literal["connecting", "standby", "active", "refused"]


@dataclass(slots=True)
class Health:
    """One database's state. Its loop's thread writes it, others read; every field is atomic."""

    database: str
    role: Role = "connecting"
    reason: str | None = None
    since: float = field(default_factory=time.monotonic)  # start, or the last good look
    complete_at: float = field(default_factory=time.monotonic)  # the same, with no queue failing
    alive_at: float = field(default_factory=time.monotonic)  # the thread went round its loop
    failing: tuple[str, ...] = ()
    running: dict[str, float] = field(default_factory=dict)  # duties, and since when

    def looked(self, now: float) -> None:
        """Note that everything that should be ticked has been (active) or the lock was asked."""
        self.since = self.alive_at = now
        if not self.failing:
            self.complete_at = now

    def change(self, role: Role, reason: str | None = None) -> None:
        """Take a role; `reason` says why it is not a working one."""
        self.role, self.reason = role, reason
        if role != "active":
            self.failing = ()
        self.alive_at = time.monotonic()

    def age(self, now: float) -> float:
        """Return the seconds since the last good look (or since the start)."""
        return max(0.0, now - self.since)

    def tick_age(self, now: float) -> float:
        """Return the seconds since everything that was due was ticked, as far as we know."""
        return max(0.0, now - self.complete_at)

    def slow_duties(self, now: float) -> list[str]:
        """Return the duties that have been running for suspiciously long."""
        return [duty for duty, since in self.running.copy().items() if now - since > SLOW_DUTY]

    def healthy(self, now: float, limit: float) -> bool:
        """Say whether the database is served, by us or by the daemon we stand by for."""
        return self.role in ("active", "standby") and self.age(now) < limit

    def report(self, now: float, limit: float) -> dict[str, Any]:
        """Return this database's part of /healthz."""
        healthy = self.healthy(now, limit)
        reason = self.reason
        if not healthy and reason is None:
            reason = f"no answer from the database for {self.age(now):.1f} s"
        return {
            "healthy": healthy,
            "role": self.role,
            "last_look_age_seconds": round(self.age(now), 3),
            "failing_queues": list(self.failing),
            "slow_duties": self.slow_duties(now),
            "reason": reason,
        }


def overall(states: list[Health], now: float, limit: float) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and body of /healthz: 200 only if every database is served.

    Queues that fail, and duties that do not end, make it `degraded`: to start the daemon again
    would only stop the others.
    """
    databases = {state.database: state.report(now, limit) for state in states}
    healthy = all(part["healthy"] for part in databases.values())
    degraded = any(state.failing or state.slow_duties(now) for state in states)
    status = "unhealthy" if not healthy else "degraded" if degraded else "ok"
    return 200 if healthy else 503, {"status": status, "databases": databases}
