"""Fixtures: a shop whose tables a mirror keeps in another database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgqpy import Mirror
from tests.consumers.harness import Running
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pgqpy

QUEUE, NAME = "shop", "mirror"
ITEM = "create table item (id int primary key, name text, price numeric)"
FENCE = "select tick from public.pgqpy_mirror"


class Shop:
    """A source with a queue, and a target."""

    def __init__(self, dsn: str, target_dsn: str, client: pgqpy.Client) -> None:
        """Create the queue, and register the mirror."""
        self.dsn, self.target_dsn, self.client = dsn, target_dsn, client
        self.source = client.connection
        self.target = psycopg.connect(target_dsn, autocommit=True)
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, NAME)

    def capture(self, table: str, definition: str, *, mirrored: bool = True) -> None:
        """Create a table here and there, and capture it."""
        self.source.execute(definition.encode())
        self.source.execute("select pgq.add_capture(%s, %s::text::regclass)", [QUEUE, table])
        if mirrored:
            self.target.execute(definition.encode())

    def mirror(self, kind: type[Mirror] = Mirror, **settings: Any) -> Mirror:
        """Make a mirror."""
        return kind(self.dsn, queue=QUEUE, name=NAME, target=self.target_dsn, **settings)

    @contextmanager
    def running(self, mirror: Mirror | None = None) -> Iterator[Running]:
        """Run a mirror in a thread during the block; raise what it raised."""
        running = Running(mirror or self.mirror())
        try:
            yield running
        finally:
            running.consumer.stop()
            running.thread.join(30)
        running.join()

    def tick(self) -> int:
        """Take a tick; its id."""
        tick = self.client.tick_queue(QUEUE)
        assert tick is not None
        return tick.tick_id

    def position(self) -> int | None:
        """Return the tick that the mirror has finished."""
        return self.client.get_consumer_info(QUEUE, NAME)[0].last_tick

    def wait(self) -> None:
        """Take a tick, and wait until the mirror has finished it."""
        tick = self.tick()
        eventually(lambda: self.position() == tick)

    def run(self, **settings: Any) -> None:
        """Run a mirror until it has applied everything."""
        with self.running(self.mirror(**settings)):
            self.wait()

    def assert_same(self, table: str, columns: str = "t.*") -> None:
        """Compare the rows of a table as texts."""
        query = f"select ({columns})::text from {table} t order by 1".encode()
        rows = self.source.execute(query).fetchall()
        assert self.target.execute(query).fetchall() == rows


@pytest.fixture
def shop(dsn: str, empty_dsn: str, client: pgqpy.Client) -> Iterator[Shop]:
    """A shop without tables."""
    shop = Shop(dsn, empty_dsn, client)
    yield shop
    shop.target.close()


@pytest.fixture
def items(shop: Shop) -> Callable[[], list[Any]]:
    """Capture the table `item`, and return a function that reads it in the target."""
    shop.capture("public.item", ITEM)
    return lambda: shop.target.execute("select * from item order by id").fetchall()
