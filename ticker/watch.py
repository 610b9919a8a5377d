"""What the tick loop knows of each queue's last tick."""

from __future__ import annotations

import json


class Watch:
    """What the last tick of every queue counted, and which writers it did not wait for.

    A new one knows nothing, and so every queue is ticked once: what a daemon that takes over must
    do, since it cannot know for whom its predecessor was still waiting.
    """

    __slots__ = ("_names", "_parts", "_text")

    def __init__(self) -> None:
        """Know nothing."""
        self._parts: dict[str, bytes] = {}  # by queue, as JSON: made anew when it is ticked
        self._names: dict[str, bytes] = {}  # by queue, as JSON: made once
        self._text: bytes | None = None

    def ticked(self, queue: str, seq: bytes, writers: bytes | None) -> None:
        """Note a tick that counted `seq`; `writers` were open just before its snapshot.

        Writers are names from pg_locks.virtualtransaction with blanks between. One that is
        prepared goes on under another name: that costs one empty batch.
        """
        name = self._names.get(queue)
        if name is None:
            name = self._names[queue] = json.dumps(queue, ensure_ascii=False).encode()
        # By hand, as it happens hundreds of times a second; writers need no escapes.
        waits = b',"open":"%b"' % writers if writers else b""
        self._parts[queue] = b'{"queue":%b,"seq":%b%b}' % (name, seq, waits)
        self._text = None

    def forget(self, queue: str) -> None:
        """Tick the queue as soon as it is seen again, whatever its sequence says then."""
        self._parts.pop(queue, None)
        self._names.pop(queue, None)
        self._text = None

    def text(self) -> bytes:
        """Return it all as the JSON that the statement TURN takes."""
        if self._text is None:
            self._text = b"[%b]" % b",".join(self._parts.values())
        return self._text
