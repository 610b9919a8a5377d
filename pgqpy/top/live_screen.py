"""The base of all screens: the first line, and the age of the data while there is no answer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from pgqpy.top.lines import answer_line, headline

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from pgqpy.top.app import Top
    from pgqpy.watch import Snapshot

MOST_ROWS = 200  # of a table, the worst ones: a terminal shows 50, and drawing takes time
PATIENCE = 5.0  # seconds for an answer, after the pause between two looks
BACK = Binding("escape", "app.pop_screen", "back")
SORTING = (
    Binding("l", "sort('lag')", "by lag"),
    Binding("r", "sort('rate')", "by rate"),
    Binding("d", "sort('dead')", "by dead"),
    Binding("n", "sort('name')", "by name"),
)


class LiveScreen(Screen[None]):
    """A screen that shows the last snapshot, and its age while the database does not answer."""

    _has_parts = False

    def compose(self) -> ComposeResult:
        """Put what all screens have around `parts`."""
        yield Static(id="head", markup=False)
        yield Static(id="answer", markup=False)
        yield from self.parts()
        yield Footer()

    def parts(self) -> ComposeResult:
        """Yield the widgets of this screen."""
        return iter(())

    def show(self, snapshot: Snapshot) -> None:
        """Fill the widgets of this screen."""

    @property
    def top(self) -> Top:
        """The application."""
        return cast("Top", self.app)

    def on_mount(self) -> None:
        """Show what is known already, and from now on the age of it."""
        self._has_parts = True
        self.set_interval(1, self.show_answer)
        self.refresh_data()

    def on_screen_resume(self) -> None:
        """Show what was found while another screen was in front."""
        self.refresh_data()

    def refresh_data(self) -> None:
        """Show the last snapshot, once the widgets are there."""
        if not self._has_parts:
            return
        self.query_one("#head", Static).update(self.title_line(self.top.snapshot))
        self.show_answer()
        self.show(self.top.snapshot)

    def title_line(self, snapshot: Snapshot) -> str:
        """Return the first line."""
        return headline(snapshot)

    def show_answer(self) -> None:
        """Say that the database does not answer, if so."""
        now = datetime.now(timezone.utc)
        line = answer_line(self.top.snapshot, now, self.top.pause + PATIENCE)
        answer = self.query_one("#answer", Static)
        answer.update(line or "")
        answer.display = line is not None

    def action_sort(self, sort: str) -> None:
        """Sort queues and consumers."""
        self.top.sort_by(sort)
        self.refresh_data()
