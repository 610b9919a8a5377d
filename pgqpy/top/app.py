"""The application of ``pgqpy top``: its screens, and the thread that asks the database."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from datetime import datetime, timezone
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from pgqpy.top.lines import (
    CONSUMERS,
    HOLDERS,
    QUEUES,
    SORTS,
    answer_line,
    cells,
    consumer_lines,
    fitting,
    headline,
    in_order,
    problem_lines,
    queue_lines,
    text,
)
from pgqpy.watch import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from pgqpy.top.lines import Column, Sort
    from pgqpy.watch import Watcher


class LiveTable(DataTable[Text]):
    """A table of `Column`s. Its cells are texts, never markup."""

    def __init__(self, columns: tuple[Column, ...], **options: Any) -> None:
        """Take the columns; the first one stays in sight."""
        super().__init__(cursor_type="row", fixed_columns=1, **options)
        self._contents = columns
        self._shown: dict[str, list[str]] = {}

    def on_mount(self) -> None:
        """Add the columns."""
        for column in self._contents:
            heading = self._cell(column, column.heading)
            self.add_column(heading, width=cell_len(column.heading))

    def fill(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Show rows, each with its key. Only cells that changed are written anew."""
        new = {key: cells(self._contents, row) for key, row in rows}
        self._widen(new.values())
        if list(new) == list(self._shown):
            self._update(new)
        else:
            self._replace(new)
        self._shown = new

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor; None if the table is empty."""
        return (
            list(self._shown)[self.cursor_row] if self.is_valid_row_index(self.cursor_row) else None
        )

    def _widen(self, rows: Iterable[list[str]]) -> None:
        """Set the widths. Textual sets its own ones later, and may leave what is drawn as it is."""
        lines = [[each.heading for each in self._contents], *rows]
        for column, values in zip(self.ordered_columns, zip(*lines, strict=True), strict=True):
            column.width = max(map(cell_len, values))

    def _update(self, new: dict[str, list[str]]) -> None:
        for y, (key, row) in enumerate(new.items()):
            for x, (value, before) in enumerate(zip(row, self._shown[key], strict=True)):
                if value != before:
                    cell = self._cell(self._contents[x], value)
                    self.update_cell_at(Coordinate(y, x), cell, update_width=True)

    def _replace(self, new: dict[str, list[str]]) -> None:
        chosen, at = self.chosen, self.cursor_row
        self.clear()
        for key, row in new.items():
            cells_ = (self._cell(*each) for each in zip(self._contents, row, strict=True))
            self.add_row(*cells_, key=key)
        keys = list(new)
        self.move_cursor(row=keys.index(chosen) if chosen in new else min(at, len(keys) - 1))

    @staticmethod
    def _cell(column: Column, value: str) -> Text:
        return Text(value, justify="right" if column.is_number else "left")


MOST_ROWS = 200  # of a table, the worst ones: a terminal shows 50, and drawing takes time
PATIENCE = 5.0  # seconds for an answer, after the pause between two polls
BACK = Binding("escape", "app.pop_screen", "back")
SORTING = (
    Binding("l", "sort('lag')", "by lag"),
    Binding("r", "sort('rate')", "by rate"),
    Binding("d", "sort('dead')", "by dead"),
    Binding("n", "sort('name')", "by name"),
)


class LiveScreen(Screen[None]):
    """A screen that shows the last snapshot, and its age while the database does not answer."""

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
    def top(self) -> Any:
        """The application, a `Top`."""
        return self.app

    def on_mount(self) -> None:
        """Show what is known already, and from now on the age of it."""
        self.set_interval(1, self.show_answer)
        self.refresh_data()

    def on_screen_resume(self) -> None:
        """Show what was found while another screen was in front."""
        self.refresh_data()

    def refresh_data(self) -> None:
        """Show the last snapshot. While a screen closes, its widgets are gone first."""
        self.show_answer()
        with suppress(NoMatches):
            self.query_one("#head", Static).update(self.title_line(self.top.snapshot))
            self.show(self.top.snapshot)

    def title_line(self, snapshot: Snapshot) -> str:
        """Return the first line."""
        return headline(snapshot)

    def show_answer(self) -> None:
        """Say that the database does not answer, if so."""
        now = datetime.now(timezone.utc)
        line = answer_line(self.top.snapshot, now, self.top.pause + PATIENCE)
        for answer in self.query("#answer").results(Static):
            answer.update(line or "")
            answer.display = line is not None

    def action_sort(self, sort: str) -> None:
        """Sort queues and consumers."""
        self.top.sort_by(sort)
        self.refresh_data()


class QueueScreen(LiveScreen):
    """A queue and its consumers."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK, *SORTING]

    def __init__(self, queue: str) -> None:
        """Take the queue's name."""
        super().__init__()
        self._queue = queue

    def parts(self) -> ComposeResult:
        """Yield the details and the consumers."""
        yield Static(id="details", markup=False)
        yield LiveTable(CONSUMERS, id="consumers")

    def title_line(self, snapshot: Snapshot) -> str:
        """Name the queue."""
        return (
            f"queue {text(self._queue)} in {text(snapshot.database)}, consumers by {self.top.sort}"
        )

    def show(self, snapshot: Snapshot) -> None:
        """Show the queue, or that it is gone."""
        queue = snapshot.queue(self._queue)
        lines = queue_lines(snapshot, queue) if queue else ["there is no such queue"]
        self.query_one("#details", Static).update("\n".join(lines))
        rows = in_order(snapshot.consumers_of(self._queue), self.top.sort)
        self.query_one(LiveTable).fill((each.name, each) for each in rows[:MOST_ROWS])

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Look into a consumer."""
        await self.app.push_screen(ConsumerScreen(self._queue, str(event.row_key.value)))


class ConsumerScreen(LiveScreen):
    """A consumer; of a shared one, who has claimed events."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, queue: str, consumer: str) -> None:
        """Take the names."""
        super().__init__()
        self._place = (queue, consumer)

    def parts(self) -> ComposeResult:
        """Yield the details and the holders."""
        yield Static(id="details", markup=False)
        yield LiveTable(HOLDERS, id="holders")

    def title_line(self, snapshot: Snapshot) -> str:
        """Name the consumer."""
        queue, consumer = map(text, self._place)
        return f"consumer {consumer} of queue {queue} in {text(snapshot.database)}"

    def show(self, snapshot: Snapshot) -> None:
        """Show the consumer, or that it is gone."""
        consumer = snapshot.consumer(*self._place)
        lines = consumer_lines(consumer) if consumer else ["there is no such consumer"]
        self.query_one("#details", Static).update("\n".join(lines))
        holders = snapshot.holders_of(*self._place)[:MOST_ROWS]
        self.query_one("#holders", LiveTable).fill((str(each.holder), each) for each in holders)


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
        """Yield problems, the table, and the line that searches names."""
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
space   poll now, also at sizes, and make all checks
?       this page
q       quit

lag: the age of the last finished tick, 0 while no event is pending; of a queue, the largest one
pending: event ids after the position; of a queue, of the consumer that has most
ticks: whether the queue gets its ticks
events/s: inserted, or finished by a consumer, since the last poll
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


END = 2.0  # seconds to wait for the last poll: a server that hangs does not keep the program


class PollThread:
    """Polls the database until it is stopped. The functions are called in its thread."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        on_poll: Callable[[Snapshot], None],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """Take the watcher; `stop` closes its connection."""
        self._watcher = watcher
        self._on_poll, self._on_bug = on_poll, on_bug
        self._wake, self._stopping = Event(), False
        self._fully = False
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

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                fully, self._fully = self._fully, False
                self._poll(fully=fully)
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
            on_poll=lambda found: self._tell(self.show, found),
            on_bug=lambda error: self._tell(self.exit, error),
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

    def show(self, snapshot: Snapshot) -> None:
        """Show what a poll found."""
        self.snapshot = snapshot
        if isinstance(self.screen, LiveScreen) and self.screen.is_mounted:
            self.screen.refresh_data()

    def sort_by(self, sort: str) -> None:
        """Sort queues and consumers."""
        self.sort = next(each for each in SORTS if each == sort)

    def action_poll_now(self) -> None:
        """Poll at once, with all checks."""
        self._poller.poll_now()

    async def action_keys(self) -> None:
        """Show the keys."""
        if not isinstance(self.screen, Keys):
            await self.push_screen(Keys())

    def _tell(self, function: Callable[[Any], None], value: Any) -> None:
        """Call a function in the loop, from the thread."""
        with suppress(RuntimeError):  # the loop has ended
            self.call_later(function, value)
