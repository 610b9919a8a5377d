"""Copies the rows of a captured table as events, beside live changes: docs/capture.md says how."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.types.multirange import Multirange

from pgqpy.calls import capture
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.client import Client
    from pgqpy.records import Capture

ROWS = 291  # at most, in a block of 8 kB
CHUNK = 0.025  # seconds that the transaction of a chunk shall take
FIRST, LARGEST = 1, 256  # blocks
IDS = 50_000  # reserved by one call, which takes about 0.1 s; fewer at the end of a table
POLL = 0.02  # seconds, while writers have not ended
WARN_AFTER = 1.0  # seconds of waiting for writers; then a line names them


@dataclass(frozen=True)
class Place:
    """How far the copy of a table is.

    Attributes:
        table: the table, or the partition, as SQL names it.
        block: the next block.
        blocks: how many there are.
        filenode: the table's file, to see whether it is still the same.
        rows: how many rows were copied in this run.
    """

    table: str
    block: int
    blocks: int
    filenode: int
    rows: int

    def __str__(self) -> str:
        """Name where to go on."""
        return f"{self.block}@{self.filenode}"


def parse_place(text: str) -> tuple[int, int | None]:
    """Return the block, and the file, of `1200@16391` or `1200`. ValueError: it is neither."""
    block, at, filenode = text.partition("@")
    if not (block.isdecimal() and (filenode.isdecimal() or not at)):
        raise ValueError(f"{text!r} is no place in a table: write what the command printed")
    return int(block), int(filenode) if at else None


def copy_table(
    client: Client,
    captured: Capture,
    table: str,
    start: tuple[int, int | None],
    tell: Callable[[str], None],
) -> Iterator[Place]:
    """Copy a captured table, or a partition of it, from a block on; yield each chunk's place.

    Each chunk is a transaction. A table that is rewritten meanwhile is begun again. `client` is in
    autocommit mode, and prepares no statement from now on. `tell` gets a line if the copy has to
    wait, or to begin again.
    """
    # A user's cast runs in this session, and could replace a prepared statement.
    client.connection.prepare_threshold = None
    queue, (block, filenode) = captured.queue_name, start
    size, blocks, rows = FIRST, 0, 0
    ids = Multirange[Any]()
    while True:
        if _count(ids) < size * ROWS:
            count = min(max(blocks - block, size) * ROWS, IDS)
            while _count(ids) < size * ROWS:
                more = client.call(capture.reserve_event_ids(queue, count))
                ids = Multirange([*ids, *more])
            _wait_for_writers(client, table, tell)
        began = time.monotonic()
        try:
            chunk = client.call(capture.copy_chunk(captured, table, block, size, ids))
        except (errors.ProgramLimitExceeded, errors.OutOfMemory):  # rows of many megabytes
            if size == 1:
                raise
            size //= 2
            continue
        passed = time.monotonic() - began
        ids, blocks, rows = chunk.ids, chunk.blocks, rows + chunk.rows
        if filenode is not None and chunk.filenode != filenode:
            tell(f"{table} was rewritten: its copy begins again")
            block = 0
        else:
            block += size
        filenode = chunk.filenode
        yield Place(table, min(block, blocks), blocks, filenode, rows)
        if block >= blocks:
            return
        wanted = int(size * CHUNK / max(passed, 0.001))
        size = max(1, min(wanted, size * 2, LARGEST))


def _count(ids: Multirange[Any]) -> int:
    return sum(each.upper - each.lower for each in ids)  # type: ignore[operator]  # all have bounds


def _wait_for_writers(client: Client, table: str, tell: Callable[[str], None]) -> None:
    """Wait until the transactions have ended that may have written to the table so far."""
    before = client.call(capture.get_writers(table))
    warn_at: float | None = time.monotonic() + WARN_AFTER
    while before:
        if warn_at is not None and time.monotonic() > warn_at:
            pids = sorted({pid for pid in before.values() if pid is not None})
            who = f"processes {', '.join(map(str, pids))}" if pids else "a prepared transaction"
            tell(f"waits for the end of a transaction that writes to {table}: {who}")
            warn_at = None
        time.sleep(POLL)
        now = client.call(capture.get_writers(table))
        before = {transaction: pid for transaction, pid in now.items() if transaction in before}


def find_capture(client: Client, table: str) -> Capture:
    """Return the capture of a table, or of a partition's parent. Raises InvalidArgument."""
    root = client.call(capture.get_root(table))
    for found in client.call(capture.get_captures()):
        if found.table == root:
            return found
    raise InvalidArgument(
        f"table {table} is not captured: pgqpy capture add {table} --queue QUEUE", parameter="table"
    )
