"""The overview of all queues, and the screens of all problems and all keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Input, Static

from pgqpy.top.columns import QUEUES, in_order, text
from pgqpy.top.details import QueueScreen
from pgqpy.top.lines import fitting, problem_lines
from pgqpy.top.live_screen import BACK, MOST_ROWS, SORTING, LiveScreen
from pgqpy.top.table import LiveTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets import DataTable

    from pgqpy.watch import Snapshot

MOST_LINES = 9  # of problems, above the table: max-height in top.tcss


class Overview(LiveScreen):
    """All queues, and what is wrong first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *SORTING,
        Binding("p", "problems", "problems"),
        Binding("slash", "find", "find"),
        Binding("escape", "forget", "all queues", show=False),
    ]

    def parts(self) -> ComposeResult:
        """Yield problems, the table, and the line that looks for names."""
        yield Static(id="problems", markup=False)
        yield Static(id="caption", markup=False)
        yield LiveTable(QUEUES, id="queues")
        find = Input(placeholder="a part of a queue's name", id="find")
        find.display = False
        yield find

    def show(self, snapshot: Snapshot) -> None:
        """Show the worst problems and the queues."""
        self.query_one("#problems", Static).update(
            _problems(snapshot, fitting(snapshot.problems, self.app.size.width, MOST_LINES))
        )
        part = self.query_one("#find", Input).value
        found = [queue for queue in snapshot.queues if part in queue.name]
        rows = in_order(found, self.top.sort)[:MOST_ROWS]
        some = f"{len(rows):,} of {len(snapshot.queues):,} queues"
        which = f" with {text(part)!r}" if part else ""
        self.query_one("#caption", Static).update(f"{some}{which}, by {self.top.sort}")
        self.query_one(LiveTable).fill((queue.name, queue) for queue in rows)

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Look into a queue."""
        await self.app.push_screen(QueueScreen(str(event.row_key.value)))

    def on_input_changed(self) -> None:
        """Show the queues with this part in their names."""
        self.refresh_data()

    def on_input_submitted(self) -> None:
        """Go to the table."""
        self.query_one(LiveTable).focus()

    async def action_problems(self) -> None:
        """Show all problems."""
        await self.app.push_screen(Problems())

    def action_find(self) -> None:
        """Ask for a part of a name."""
        find = self.query_one("#find", Input)
        find.display = True
        find.focus()

    def action_forget(self) -> None:
        """Show all queues again."""
        find = self.query_one("#find", Input)
        find.value, find.display = "", False
        self.query_one(LiveTable).focus()


class Problems(LiveScreen):
    """All problems that doctor found."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def parts(self) -> ComposeResult:
        """Yield a text that can be scrolled."""
        with VerticalScroll():
            yield Static(id="all", markup=False)

    def show(self, snapshot: Snapshot) -> None:
        """Show all problems."""
        self.query_one("#all", Static).update(_problems(snapshot, len(snapshot.findings)))


class Keys(LiveScreen):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def parts(self) -> ComposeResult:
        """Yield the list of keys."""
        with VerticalScroll():
            yield Static(KEYS, markup=False)


KEYS = """\
arrows  choose a row; left and right show further columns
enter   look into the queue, or into the consumer
escape  back
l r d n sort by lag, rate, dead events, name
/       show only queues with a part of a name; escape shows all
p       all problems that the checks of pgqpy doctor found
space   look now, also at sizes, and make all checks
?       this page
q       quit

lag: the age of the last finished tick, 0 while no event is pending; of a queue, the largest one
pending: event ids after the position; of a queue, of the consumer that has most
ticks: whether the queue gets its ticks
events/s: inserted, or finished by a consumer, since the last look
10,000+: counting stops there
-: not known, or not to be seen by this role
"""


def _problems(snapshot: Snapshot, most: int) -> Text:
    """Say what is wrong, the worst first, with bold words for readers without colours."""
    problems = snapshot.problems
    lines = problem_lines(problems[:most])
    if len(problems) > most:
        lines.append(f"     and {len(problems) - most} more: press p")
    elif not problems:
        lines.append("nothing is wrong" if snapshot.examined else "the checks run …")
    found = Text("\n".join(lines))
    found.highlight_regex(r"(?m)^FAIL", "bold red")
    found.highlight_regex(r"(?m)^WARN", "bold yellow")
    return found
