"""The screens of one queue and of one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.widgets import Static

from pgqpy.top.columns import CONSUMERS, DEAD, WORKERS, in_order, text
from pgqpy.top.lines import consumer_lines, queue_lines
from pgqpy.top.live_screen import BACK, MOST_ROWS, SORTING, LiveScreen
from pgqpy.top.table import LiveTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widgets import DataTable

    from pgqpy.watch import DeadEvents, Snapshot


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
    """A consumer: its workers or lanes with their open batches, its dead events by type."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, queue: str, consumer: str) -> None:
        """Take the names."""
        super().__init__()
        self.names = (queue, consumer)

    def parts(self) -> ComposeResult:
        """Yield the details, the workers, the dead events."""
        yield Static(id="details", markup=False)
        yield LiveTable(WORKERS, id="workers")
        yield Static("dead events by type: not counted yet", id="counted", markup=False)
        yield LiveTable(DEAD, id="dead")

    def title_line(self, snapshot: Snapshot) -> str:
        """Name the consumer."""
        queue, consumer = map(text, self.names)
        return f"consumer {consumer} of queue {queue} in {text(snapshot.database)}"

    def on_mount(self) -> None:
        """Ask for the dead events."""
        super().on_mount()
        self.top.count_dead(self.names)

    def show(self, snapshot: Snapshot) -> None:
        """Show the consumer, or that it is gone."""
        consumer = snapshot.consumer(*self.names)
        lines = consumer_lines(consumer) if consumer else ["there is no such consumer"]
        self.query_one("#details", Static).update("\n".join(lines))
        workers = snapshot.workers_of(*self.names)[:MOST_ROWS]
        rows = ((f"{number} {each.worker}", each) for number, each in enumerate(workers))
        self.query_one("#workers", LiveTable).fill(rows)

    def show_dead(self, dead: DeadEvents | None) -> None:
        """Show the dead events; None: they cannot be seen."""
        counts = dead.counts if dead else ()
        what = "none" if dead else "pgq_dashboard or pgq_reader may see them"
        if counts:
            what = "of the newest ones" if dead and dead.more else "all of them"
        self.query_one("#counted", Static).update(f"dead events by type: {what}")
        table = self.query_one("#dead", LiveTable)
        table.fill((str(number), each) for number, each in enumerate(counts[:MOST_ROWS]))
