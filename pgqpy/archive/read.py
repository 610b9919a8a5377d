"""Reading of archived events, by ticks, times and types."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pgqpy.archive.files import COLUMNS, damaged, info_of, open_file, to_microseconds
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from pgqpy.archive.files import ArchiveFile
    from pgqpy.archive.store import Store

TIME = COLUMNS.get_field_index("ev_time")
EARLIEST = to_microseconds(datetime.min.replace(tzinfo=timezone.utc))
LATEST = to_microseconds(datetime.max.replace(tzinfo=timezone.utc))
ROWS = 1000  # events held at a time, at most a row group of large ones


class ArchiveSelection(NamedTuple):
    """Which events to read. None: no condition.

    Attributes:
        after: the events that come after this tick.
        up_to: and not after this one.
        since: the events with this time or a later one.
        until: and an earlier one than this.
        types: of one of these types; one that ends with * is a prefix.
        extras: with one of these values in an extra, as {"extra1": ["eu"]}.
    """

    after: int | None = None
    up_to: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    types: Collection[str] | None = None
    extras: Mapping[str, Collection[str]] | None = None


ALL = ArchiveSelection()


def choose_files(
    files: Sequence[ArchiveFile], after: int | None = None, up_to: int | None = None
) -> list[ArchiveFile]:
    """Return the files that hold events after one tick, up to another."""
    return [
        each
        for each in files
        if (after is None or each.to_tick > after) and (up_to is None or each.from_tick < up_to)
    ]


def read_batches(
    store: Store,
    files: Sequence[ArchiveFile],
    wanted: ArchiveSelection = ALL,
    columns: Sequence[str] = tuple(COLUMNS.names),
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted events of files as Arrow batches with these of the columns of `COLUMNS`.

    The order is that of the files, and by id within a file. Raises ArchiveDamaged.

    Args:
        store: where the files are.
        files: in their order; those without wanted events are left out.
        wanted: which events.
        columns: their names.
    """
    for each in choose_files(files, wanted.after, wanted.up_to):
        with open_file(store, each.path) as file:
            info_of(file, each.path)
            yield from _read_file(file, each.path, wanted, columns)


def read_groups(
    store: Store, file: ArchiveFile, wanted: ArchiveSelection = ALL, after: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the wanted events of each row group after the first ones, with the group's number.

    Numbers count from 1, and groups without a wanted event are left out. Raises ArchiveDamaged.
    """
    with open_file(store, file.path) as opened:
        info_of(opened, file.path)
        for number in range(after, opened.metadata.num_row_groups):
            if _may_hold(opened.metadata.row_group(number), wanted):
                try:
                    group = opened.read_row_group(number, use_threads=False)
                except (pa.ArrowException, OSError) as error:
                    raise damaged(file.path, error) from error
                found = _select(group.combine_chunks().to_batches()[0], wanted)
                if found.num_rows:
                    yield number + 1, found


def read_events(
    store: Store, files: Sequence[ArchiveFile], wanted: ArchiveSelection = ALL
) -> Iterator[Event]:
    """Yield the wanted events of files, as `read_batches` does.

    Times that Python lacks become its first or its last one, as with get_tick_events.
    """
    for batch in read_batches(store, files, wanted):
        columns = batch.columns[: len(Event._fields)]
        columns[TIME] = _bounded(columns[TIME])
        yield from map(Event, *(column.to_pylist() for column in columns))


def _bounded(times: pa.Array) -> pa.Array:
    counts = times.cast(pa.int64())
    inside = pc.min_element_wise(pc.max_element_wise(counts, EARLIEST), LATEST)
    return inside.cast(times.type)


def _read_file(
    file: pq.ParquetFile,
    path: str,
    wanted: ArchiveSelection,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    groups = [
        number
        for number in range(file.metadata.num_row_groups)
        if _may_hold(file.metadata.row_group(number), wanted)
    ]
    if not groups:  # pyarrow before 19 raises an error for none
        return
    try:
        read = [*dict.fromkeys([*columns, *_compared(wanted)])]
        for batch in file.iter_batches(ROWS, groups, read, use_threads=False):
            found = _select(batch, wanted)
            if found.num_rows:
                yield found.select(list(columns))
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def _may_hold(group: pq.RowGroupMetaData, wanted: ArchiveSelection) -> bool:
    """Say whether the smallest and the largest values of a row group allow a wanted event."""
    for name, low, high in (
        ("tick_id", None if wanted.after is None else wanted.after + 1, wanted.up_to),
        ("ev_time", _raw(wanted.since), _raw(wanted.until)),
    ):
        said = group.column(COLUMNS.get_field_index(name)).statistics
        if said is None or not said.has_min_max:
            continue
        if (low is not None and said.max_raw < low) or (high is not None and said.min_raw > high):
            return False
    return True


def _compared(wanted: ArchiveSelection) -> list[str]:
    """Return the columns that the conditions look at, and one at least: a row may need no other."""
    texts = ["ev_type"] if wanted.types is not None else []
    return ["tick_id", "ev_time", *texts, *(f"ev_{name}" for name in wanted.extras or {})]


def _raw(time: datetime | None) -> int | None:
    return None if time is None else to_microseconds(time)


def _select(batch: pa.RecordBatch, wanted: ArchiveSelection) -> pa.RecordBatch:
    for name, compare, value in (
        ("tick_id", pc.greater, wanted.after),
        ("tick_id", pc.less_equal, wanted.up_to),
        ("ev_time", pc.greater_equal, wanted.since),
        ("ev_time", pc.less, wanted.until),
    ):
        if value is not None:
            kind = COLUMNS.field(name).type
            batch = batch.filter(compare(batch[name], pa.scalar(value, kind)))
    texts = {"type": wanted.types, **(wanted.extras or {})}
    for name, values in texts.items():
        if values is not None and not (name == "type" and "*" in values):
            batch = batch.filter(_is_one_of(batch[f"ev_{name}"], values, prefixes=name == "type"))
    return batch


def _is_one_of(texts: pa.Array, values: Collection[str], *, prefixes: bool) -> pa.Array:
    """Say which texts are one of these, or begin with one that ends with *; a null does not."""
    found = pc.is_in(texts, pa.array(list(values), pa.string()))
    for value in values:
        if prefixes and value.endswith("*"):
            found = pc.or_(found, pc.fill_null(pc.starts_with(texts, value[:-1]), fill_value=False))
    return found
