"""The application of ``pgqpy top``."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from pgqpy.top.columns import SORTS
from pgqpy.top.details import ConsumerScreen
from pgqpy.top.live_screen import LiveScreen
from pgqpy.top.looks import Looks
from pgqpy.top.overview import Keys, Overview
from pgqpy.watch import Snapshot

if TYPE_CHECKING:
    from textual.binding import BindingType

    from pgqpy.top.columns import Sort
    from pgqpy.watch import DeadEvents, Watcher


class Looked(Message):
    """A look ended."""

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
        Binding("space", "look_now", "look now", show=False),
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
        self._looks = Looks(
            watcher,
            on_look=lambda found: self._post(Looked(found)),
            on_dead=lambda names, dead: self._post(Counted(names, dead)),
            on_bug=lambda error: self._post(Broken(error)),
        )

    @property
    def pause(self) -> float:
        """The seconds between two looks."""
        return self._watcher.pause

    async def on_mount(self) -> None:
        """Show the overview, and begin to look."""
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        await self.push_screen(Overview())
        self._looks.start()

    def on_unmount(self) -> None:
        """End the looks."""
        self._looks.stop()

    def on_looked(self, message: Looked) -> None:
        """Show what a look found."""
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
        self._looks.count_dead(names)

    def action_look_now(self) -> None:
        """Look at once, with all checks."""
        if isinstance(self.screen, ConsumerScreen):
            self.count_dead(self.screen.names)
        self._looks.look_now()

    async def action_keys(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, Keys):
            await self.push_screen(Keys())

    def _post(self, message: Message) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self.post_message(message)
