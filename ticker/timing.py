"""The times and the signal that the tick loop and the mover of one database share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from threading import Event


@dataclass(slots=True)
class Timing:
    """What the tick loop and the mover of one database tell each other.

    `ticked` is set by the loop. Whoever inserts a delayed event takes an id from the queue's
    sequence, so the loop ticks the queue after the commit. The mover then looks whether an event is
    due earlier than it knew.

    `due_at` and `moved_at` (monotonic seconds) are set by the mover. The loop polls soon after
    them, also where it would rest because no events come in.
    """

    ticked: Event = field(default_factory=Event)
    due_at: float = math.inf
    moved_at: float = -math.inf

    def quiet(self, last_tick: float, now: float) -> float:
        """Return the seconds since the last tick or move; 0 where a move is due."""
        due = self.due_at if self.due_at <= now else -math.inf
        return now - max(last_tick, self.moved_at, due)
