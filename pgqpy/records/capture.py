"""Records about captured tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from psycopg.types.multirange import Multirange


class Capture(NamedTuple):
    """A captured table, from `get_captures`.

    Attributes:
        queue_name: the queue that gets its changes.
        table_name: schema.table, as in the types of events.
        table: the table as SQL names it: quoted where it has to be.
        key_columns: the columns whose values are an event's key.
        always: whether changes by replication are captured, too.
        problems: what is wrong, in sentences: changes that bring no event, or fail.
    """

    queue_name: str
    table_name: str
    table: str
    key_columns: list[str]
    always: bool
    problems: list[str]


class CopiedChunk(NamedTuple):
    """What `copy_chunk` did.

    Attributes:
        rows: how many rows are events now.
        ids: the reserved ids that are left.
        blocks: how many blocks the table has.
        filenode: the table's file: another one means that the table was rewritten.
    """

    rows: int
    ids: Multirange[Any]
    blocks: int
    filenode: int
