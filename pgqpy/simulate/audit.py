"""The truth of a simulation: the events that its ticks show, and those that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.simulate.history import Content, Stored
from pgqpy.simulate.names import AUDIT, CONSUMER, QUEUE

if TYPE_CHECKING:
    from pgqpy import Client, Event


class Audit:
    """Reads the range between each two ticks, as a consumer of its own that keeps their events.

    It reads while the simulation runs: after a minute or so, maintenance keeps only one tick of
    each second.
    """

    def __init__(self, client: Client) -> None:
        """Register the consumer; what commits from now on is read."""
        client.register_consumer(QUEUE, AUDIT)
        (info,) = client.get_consumer_info(QUEUE, AUDIT)
        self._client = client
        self._tick = info.last_tick or 0
        self.events: list[Stored] = []

    def read(self) -> None:
        """Read up to the last tick. A range of ticks is the same whenever it is read."""
        for tick in self._client.call(calls.ticks.get_tick_info(QUEUE, self._tick)):
            if tick.tick_id > self._tick:
                for event in self._client.get_tick_events(QUEUE, self._tick, tick.tick_id):
                    self.events.append(Stored(tick.tick_id, event.id, _content(event)))
                self._tick = tick.tick_id

    def dead(self) -> set[int]:
        """Return the events that the workers gave up."""
        return {event.ev_id for event in self._client.get_dead_events(QUEUE, CONSUMER)}

    def close(self) -> None:
        """Unregister, so that a queue that stays can be rotated."""
        self._client.unregister_consumer(QUEUE, AUDIT)


def _content(event: Event) -> Content:
    data = event.json()
    if data["key"] != event.extra1:
        return Content(data["number"], f"{data['key']} in data, {event.extra1} in extra1", "")
    return Content(data["number"], data["key"], event.type or "")
