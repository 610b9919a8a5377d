"""[Generated from _async/turn.py by tools/unasync.py: edit that file, not this one.] The turn of one queue of a consumer: its handlers run, and those of its other queues do not.

While handlers of a queue run, only this queue has the token of its run beside an open batch. If the
process dies then, begin_run of the next run counts that against the events of this queue. A queue
that waits in the middle of a batch has told that its run has ended. Else five events of another
queue that kill would make one of its events dead, though no handler ever had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.consumers._sync.careful import Careful
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.turns import Turns
    from pgqpy.consumers.waiting import Wakeup

LONGEST = 60.0  # seconds; a wake-up comes before


class Turn:
    """The turn of one queue; a consumer with one queue always has it."""

    def __init__(self, stop: Wakeup, turns: Turns | None = None, queue: int = 0) -> None:
        """Take the number of the queue, and None for a consumer with one queue."""
        self._stop = stop
        self._turns = turns
        self._queue = queue

    @property
    def contended(self) -> bool:
        """Whether another queue is to have the turn, now that it could end."""
        return self._turns is not None and self._turns.contended(self._queue)

    def earlier_have_begun(self) -> None:
        """Wait until earlier queues have their locks.

        Of two processes that start at the same time, each would else get one of two queues.
        """
        if self._turns is not None:
            while not self._turns.begun(self._queue) and not self._stop.is_set:
                self._sleep(self._turns)

    def begin(self, session: Session, careful: Careful) -> None:
        """Wait for the first turn in a session, which counts as working meanwhile."""
        if self._turns is not None:
            careful.suspend(session)  # a session that was lost may have left the token
            session.ready = True
            self.take()
            session.ready = False  # until it has looked for a batch

    def take(self) -> None:
        """Wait for the turn; only after `stop` it may not have come."""
        if self._turns is None:
            return
        self._turns.ask(self._queue)
        while not self._turns.take(self._queue) and not self._stop.is_set:
            self._sleep(self._turns)

    def leave(self) -> None:
        """Let other queues have the turn; doing so twice is safe. No batch is open."""
        if self._turns is not None:
            self._turns.leave(self._queue)

    def alone(self) -> None:
        """Before handlers run, wait until queues in the middle of a batch have told it."""
        if self._turns is not None:
            while not self._turns.alone(self._queue) and not self._stop.is_set:
                self._sleep(self._turns)

    def pass_on(self, careful: Careful) -> bool:
        """Let other queues have the turn, and take it again; say whether handlers of them ran."""
        turns, queue, suspended = self._turns, self._queue, False
        if turns is None:
            return False
        turns.leave(queue, exposed=True)
        turns.ask(queue)
        while not turns.take(queue) and not self._stop.is_set:
            if turns.is_to_hide(queue):
                careful.suspend()
                turns.hidden(queue)
                suspended = True
            self._sleep(turns)
        if suspended and not self._stop.is_set:
            careful.resume()
        self.alone()
        return suspended

    def pause(self, seconds: float, careful: Careful) -> None:
        """Wait, and let other queues have the turn meanwhile."""
        if self._turns is None:
            self._stop.wait(seconds)
            return
        careful.suspend()
        self._turns.leave(self._queue)
        self._stop.wait(seconds)
        self.take()
        if not self._stop.is_set:
            careful.resume()
            self.alone()

    def _sleep(self, turns: Turns) -> None:
        self._stop.wait(LONGEST, turns.fileno(self._queue))
