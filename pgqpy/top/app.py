"""The application of ``pgqpy top``, and the thread that asks the database."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from pgqpy.top.lines import SORTS
from pgqpy.top.screens import ConsumerScreen, Keys, LiveScreen, Overview
from pgqpy.watch import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from pgqpy.top.lines import Sort
    from pgqpy.watch import DeadEvents, Watcher

if TYPE_CHECKING:
    Names = tuple[str, str]  # of a queue and its consumer

END = 2.0  # seconds to wait for the last poll: a server that hangs does not keep the program


class PollThread:
    """Polls the database until it is stopped. The functions are called in its thread."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        on_poll: Callable[[Snapshot], None],
        on_dead: Callable[[Names, DeadEvents | None], None],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """Take the watcher; `stop` closes its connection."""
        self._watcher = watcher
        self._on_poll, self._on_dead, self._on_bug = on_poll, on_dead, on_bug
        self._wake, self._stopping = Event(), False
        self._fully = False
        self._wanted: Names | None = None
        self._thread = Thread(target=self._run, name="polls", daemon=True)

    def start(self) -> None:
        """Begin; the first poll connects."""
        self._thread.start()

    def stop(self) -> None:
        """End after the poll that is under way, or without it if it takes long."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(END)

    def poll_now(self) -> None:
        """Poll at once, also at sizes and with all checks."""
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
                self._poll(fully=fully)
                if wanted is not None:
                    self._on_dead(wanted, self._watcher.dead_events(*wanted))
                self._wake.wait(self._watcher.pause)
        except Exception as exc:  # noqa: BLE001  # the application ends, and shows it
            self._on_bug(exc)
        finally:
            self._watcher.close()

    def _poll(self, *, fully: bool) -> None:
        for found in self._watcher.polls(fully=fully):
            self._on_poll(found)
            if self._stopping:
                return


class Polled(Message):
    """A poll ended."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Take what it found."""
        super().__init__()
        self.snapshot = snapshot


class Counted(Message):
    """Dead events were counted."""

    def __init__(self, names: tuple[str, str], dead: DeadEvents | None) -> None:
        """Take the queue, the consumer and the counts."""
        super().__init__()
        self.names, self.dead = names, dead


class Broken(Message):
    """The thread ended with an unexpected error."""

    def __init__(self, error: Exception) -> None:
        """Take the error."""
        super().__init__()
        self.error = error


class Top(App[Exception]):
    """The overview of a database in a terminal. It returns an unexpected error of the thread."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "poll_now", "poll now", show=False),
        Binding("question_mark", "keys", "keys"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, watcher: Watcher, sort: Sort = "lag") -> None:
        """Take the watcher, which is closed at the end, and the first order of the queues."""
        # With NO_COLOR, textual shows shades of grey otherwise.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.snapshot = Snapshot()
        self.sort = sort
        self._watcher = watcher
        self._poller = PollThread(
            watcher,
            on_poll=lambda found: self._post(Polled(found)),
            on_dead=lambda names, dead: self._post(Counted(names, dead)),
            on_bug=lambda error: self._post(Broken(error)),
        )

    @property
    def pause(self) -> float:
        """The seconds between two polls."""
        return self._watcher.pause

    async def on_mount(self) -> None:
        """Show the overview, and begin to poll."""
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        await self.push_screen(Overview())
        self._poller.start()

    def on_unmount(self) -> None:
        """End the polls."""
        self._poller.stop()

    def on_polled(self, message: Polled) -> None:
        """Show what a poll found."""
        self.snapshot = message.snapshot
        if isinstance(self.screen, LiveScreen):
            self.screen.refresh_data()

    def on_counted(self, message: Counted) -> None:
        """Show the dead events of the consumer that is in front."""
        if isinstance(self.screen, ConsumerScreen) and self.screen.names == message.names:
            self.screen.show_dead(message.dead)

    def on_broken(self, message: Broken) -> None:
        """End with the error."""
        self.exit(message.error)

    def sort_by(self, sort: str) -> None:
        """Sort queues and consumers."""
        self.sort = next(each for each in SORTS if each == sort)

    def count_dead(self, names: tuple[str, str]) -> None:
        """Count a consumer's dead events by type and error, and show them."""
        self._poller.count_dead(names)

    def action_poll_now(self) -> None:
        """Poll at once, with all checks."""
        if isinstance(self.screen, ConsumerScreen):
            self.count_dead(self.screen.names)
        self._poller.poll_now()

    async def action_keys(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, Keys):
            await self.push_screen(Keys())

    def _post(self, message: Message) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self.post_message(message)
