"""The thread that looks at the database, so that no key waits for the server."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.watch import DeadEvents, Snapshot, Watcher

    Names = tuple[str, str]  # of a queue and its consumer

END = 2.0  # seconds to wait for the last look: a server that hangs does not keep the program


class Looks:
    """Looks at the database until it is stopped. The functions are called in its thread."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        on_look: Callable[[Snapshot], None],
        on_dead: Callable[[Names, DeadEvents | None], None],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """Take the watcher; `stop` closes its connection."""
        self._watcher = watcher
        self._on_look, self._on_dead, self._on_bug = on_look, on_dead, on_bug
        self._wake, self._stopping = Event(), False
        self._fully = False
        self._wanted: Names | None = None
        self._thread = Thread(target=self._run, name="looks", daemon=True)

    def start(self) -> None:
        """Begin; the first look connects."""
        self._thread.start()

    def stop(self) -> None:
        """End after the look that is under way, or without it if it takes long."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(END)

    def look_now(self) -> None:
        """Look at once, also at sizes and with all checks."""
        self._fully = True
        self._wake.set()

    def count_dead(self, names: Names) -> None:
        """Count the dead events of a consumer by type and error."""
        self._wanted = names
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                fully, self._fully = self._fully, False
                wanted, self._wanted = self._wanted, None
                self._look(fully=fully)
                if wanted is not None:
                    self._on_dead(wanted, self._watcher.dead_events(*wanted))
                self._wake.wait(self._watcher.pause)
        except Exception as exc:  # noqa: BLE001  # the application ends, and shows it
            self._on_bug(exc)
        finally:
            self._watcher.close()

    def _look(self, *, fully: bool) -> None:
        for found in self._watcher.looks(fully=fully):
            self._on_look(found)
            if self._stopping:
                return
