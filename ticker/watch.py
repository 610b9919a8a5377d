"""What the tick loop knows of each queue's last tick."""

from __future__ import annotations

import json


class Watch:
    """What the last tick of every queue counted, and which writers it did not wait for.

    A new one knows nothing, and so every queue is ticked once: what a daemon that takes over must
    do, since it cannot know for whom its predecessor was still waiting.
    """

    __slots__ = ("_counted", "_open", "_text")

    def __init__(self) -> None:
        """Know nothing."""
        self._counted: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._text: str | None = None

    def ticked(self, queue: str, seq: int, writers: str | None) -> None:
        """Note a tick that counted `seq`; `writers` were open just before its snapshot.

        Writers are names from pg_locks.virtualtransaction with blanks between. One that is
        prepared goes on under another name: that costs one empty batch.
        """
        self._counted[queue] = seq
        if writers:
            self._open[queue] = writers
        else:
            self._open.pop(queue, None)
        self._text = None

    def forget(self, queue: str) -> None:
        """Tick the queue as soon as it is seen again, whatever its sequence says then."""
        self._counted.pop(queue, None)
        self._open.pop(queue, None)
        self._text = None

    def text(self) -> str:
        """Return it all as the JSON that the statement TURN takes."""
        if self._text is None:
            known = [
                {"queue": queue, "seq": seq, "open": self._open.get(queue)}
                for queue, seq in self._counted.items()
            ]
            self._text = json.dumps(known)
        return self._text
