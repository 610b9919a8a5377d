"""Changes of the number of lanes while the workers run."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.errors import ConsumerNotFound, WrongMode
from pgqpy.simulate.names import CONSUMER, QUEUE

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.simulate.options import Options

OLD = """
    select count(*) from pgq.registration r
      join pgq.consumer c on c.co_id = (
            select sub_consumer from pgq.registration where sub_id = r.sub_parent)
     where r.sub_stop_tick is not null and c.co_name = %s
"""


class LaneChanges:
    """Gives the consumer another number of lanes every `change_every` seconds, up to `lanes`.

    A change is done when the old lanes are gone; only then the next one begins.
    """

    def __init__(self, client: Client, options: Options) -> None:
        """Change nothing yet."""
        self._client = client
        self._options = options
        self._rng = random.Random(f"{options.seed} lanes")
        self._number = options.lanes or 1
        self._next = time.monotonic() + options.change_every
        self._began: float | None = None
        self.took: list[float] = []  # seconds of each change

    def tend(self) -> None:
        """Begin a change if it is time, or note the end of one."""
        if not self._options.change_every:
            return
        now = time.monotonic()
        if self._began is not None:
            if self._client.connection.execute(OLD, [CONSUMER]).fetchone() == (0,):
                self.took.append(now - self._began)
                self._began, self._next = None, now + self._options.change_every
        elif now >= self._next:
            others = [n for n in range(1, (self._options.lanes or 1) + 1) if n != self._number]
            self._number = self._rng.choice(others)
            try:
                self._client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, self._number, "extra1"))
            except (ConsumerNotFound, WrongMode):
                self._next = now + self._options.change_every  # no worker has begun yet
            else:
                self._began = now
