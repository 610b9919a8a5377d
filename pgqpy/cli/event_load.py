"""The input of ``pgqpy event insert --file``: events in JSON lines or CSV, read one at a time."""

from __future__ import annotations

import codecs
import csv
import json
import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from pgqpy.calls import PAYLOAD_LIMIT
from pgqpy.calls.payload import FIELDS
from pgqpy.cli.output import say
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgqpy import Client

READ_AHEAD = 1000  # events that insert_events may have read beyond the one in an error
PROGRESS_EVERY = 10_000  # events

Record = dict[str, Any]


class BadLine(click.ClickException):
    """A line of the input is not an event."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}; nothing was inserted")


class Unkept(Exception):
    """JSON that Python would write in another way."""


class TextLines:
    """The lines of a UTF-8 input; `number` is that of the current line, from 1."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the lines as text."""
        for raw in self._file:
            self.number += 1
            bare = raw.removeprefix(codecs.BOM_UTF8) if self.number == 1 else raw
            try:
                yield bare.decode()
            except UnicodeDecodeError as exc:
                raise BadLine(self.number, f"not UTF-8 at byte {exc.start + 1}") from exc


def load_events(
    client: Client, queue: str, file: Iterable[bytes], *, form: str, default_type: str | None
) -> int:
    """Load all events of `file` (`form`: jsonl or csv) in one transaction; return their number."""
    lines = TextLines(file)
    read = read_csv if form == "csv" else read_json_lines
    events = read(lines, default_type)
    if sys.stderr.isatty():
        events = with_progress(events)
    at = [0] * READ_AHEAD
    try:
        with client.transaction():
            return client.insert_events(queue, _with_lines(events, lines, at))
    except InvalidEvent as exc:
        line = lines.number if exc.index is None else at[exc.index % READ_AHEAD]
        raise BadLine(line, str(exc).removeprefix(f"event {exc.index}: ")) from exc


def _with_lines(events: Iterator[Record], lines: TextLines, at: list[int]) -> Iterator[Record]:
    """Pass the events through; store the line of each in the ring buffer `at`."""
    for index, event in enumerate(events):
        at[index % len(at)] = lines.number
        yield event


def read_json_lines(lines: TextLines, default_type: str | None = None) -> Iterator[Record]:
    """Yield the event of each line that is not blank."""
    for line in lines:
        if not line.strip():
            continue
        try:
            found = json.loads(
                line, parse_constant=_no_constant, parse_float=_number, object_pairs_hook=_object
            )
        except Unkept as exc:
            raise BadLine(lines.number, str(exc)) from exc
        except (ValueError, RecursionError) as exc:
            raise BadLine(lines.number, f"not JSON: {exc}") from exc
        if not isinstance(found, dict):
            raise BadLine(lines.number, "not a JSON object with type and data")
        yield _event(found, lines.number, default_type)


def read_csv(lines: TextLines, default_type: str | None = None) -> Iterator[Record]:
    """Yield the event of each row after the header; an empty field is null."""
    csv.field_size_limit(PAYLOAD_LIMIT)  # 128 KiB otherwise
    rows = csv.reader(lines, strict=True)
    header: list[str] | None = None
    for row in _csv_rows(rows, lines):
        if header is None:
            header = [name.strip() for name in row]
            if len(set(header)) < len(header):
                raise BadLine(lines.number, "the header names a field twice")
            _event(dict.fromkeys(header, "-"), lines.number, None)
        elif row:
            if len(row) != len(header):
                problem = f"{len(row)} field(s), the header has {len(header)}"
                raise BadLine(lines.number, problem)
            found = {name: cell or None for name, cell in zip(header, row, strict=True)}
            yield _event(found, lines.number, default_type)


def _csv_rows(rows: Iterator[list[str]], lines: TextLines) -> Iterator[list[str]]:
    try:
        yield from rows
    except csv.Error as exc:
        raise BadLine(lines.number, f"not CSV: {exc}") from exc


def _event(found: Record, line: int, default_type: str | None) -> Record:
    unknown = [name for name in found if name not in FIELDS]
    if unknown:
        raise BadLine(line, f"unknown field {unknown[0]!r} (known: {', '.join(FIELDS)})")
    event = {
        "type": default_type,
        "data": None,
        **{name: value for name, value in found.items() if value is not None},
    }
    if event["type"] is None:
        raise BadLine(line, "no type (--type names one for all)")
    for name in FIELDS:
        if name != "data" and not isinstance(event.get(name), (str, type(None))):
            raise BadLine(line, f"{name} is not a string")
    return event


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    number = float(text)
    try:
        exact = Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent that not even Decimal takes
        exact = False
    if not exact:
        raise Unkept(f"the number {text} would lose digits: write it, or data, as a string")
    return number


def _object(pairs: list[tuple[str, Any]]) -> Record:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unkept(f"an object has the name {twice!r} twice")
    return found


def with_progress(events: Iterator[Record]) -> Iterator[Record]:
    """Pass the events through; print their count every `PROGRESS_EVERY` events and at the end."""
    count = 0
    for count, event in enumerate(events, start=1):
        yield event
        if count % PROGRESS_EVERY == 0:
            say(f"{count} events read")
    if count > PROGRESS_EVERY and count % PROGRESS_EVERY:
        say(f"{count} events read")
