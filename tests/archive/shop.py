"""A queue, its archive, and the comparison of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.archive.files import ArchiveFile, Identity, find_archive, list_files, verify
from pgqpy.archive.read import ALL, ArchiveSelection, read_events
from pgqpy.archive.run import ArchiveOptions, run_archive
from pgqpy.archive.store import Store

if TYPE_CHECKING:
    import pgqpy

QUEUE_ID = 1


class Shop:
    """The queue `orders` in a fresh database."""

    def __init__(self, dsn: str, client: pgqpy.Client, location: str) -> None:
        self.dsn = dsn
        self.client = client
        self.location = location
        self.said: list[str] = []

    @property
    def store(self) -> Store:
        """The store, opened anew: it remembers nothing."""
        return Store(self.location)

    def insert(self, *data: str, **extra: Any) -> None:
        """Insert events, and tick."""
        for each in data:
            self.client.insert_event("orders", "placed", each, **extra)
        self.tick()

    def tick(self, queue: str = "orders") -> int:
        """Make a tick whatever happens in the queue, and return it."""
        self.client.connection.execute("select pgq.force_tick(%s)", [queue])
        self.client.connection.execute("select pgq.ticker(%s)", [queue])
        return self.last_tick

    @property
    def last_tick(self) -> int:
        """The queue's last tick."""
        (tick,) = self.client.connection.execute(
            "select max(tick_id) from pgq.tick"
        ).fetchone() or (0,)
        return int(tick)

    @property
    def position(self) -> int:
        """The tick at which the archive's consumer is."""
        query = """select last_tick from pgq.get_consumer_info('orders', 'archive')"""
        (tick,) = self.client.connection.execute(query).fetchone() or (0,)
        return int(tick)

    def run(self, **options: Any) -> tuple[int, int]:
        """Archive, in this process."""
        wanted = ArchiveOptions("orders", **options)
        return run_archive(wanted, self.store, self.dsn, self.said.append)

    def archive(self, *data: str, **extra: Any) -> None:
        """Insert events, and archive them."""
        self.insert(*data, **extra)
        self.run()

    def archive_each(self, *data: str) -> None:
        """Insert events, and archive each in a file of its own."""
        for each in data:
            self.insert(each)
        self.run(max_events=1)

    @property
    def files(self) -> list[ArchiveFile]:
        """The files of the archive."""
        return list_files(self.store, QUEUE_ID)

    @property
    def identity(self) -> Identity:
        """Whose archive it is."""
        return find_archive(self.store, "orders").identity

    def archived(self, wanted: ArchiveSelection = ALL) -> list[str | None]:
        """Return the data of the events in the archive."""
        return [event.data for event in read_events(self.store, self.files, wanted)]

    def verify(self) -> list[str]:
        """Return the archive's problems."""
        return list(verify(self.store, QUEUE_ID))

    def is_whole(self) -> bool:
        """Check that the archive holds exactly the queue's events, and verifies."""
        first = self.files[0].from_tick
        live = list(self.client.get_tick_events("orders", first, self.position))
        assert list(read_events(self.store, self.files)) == live
        assert self.files[-1].to_tick == self.position
        assert self.verify() == []
        return True
