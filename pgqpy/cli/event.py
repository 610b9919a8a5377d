"""``pgqpy event insert`` and ``cancel``, and the input of ``--file``: JSON lines or CSV."""

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
from pgqpy.cli import complete, queries
from pgqpy.cli.event_list import list_
from pgqpy.cli.event_schema import schema
from pgqpy.cli.event_waiting import delete, retry, show
from pgqpy.cli.options import (
    Noun,
    Target,
    connected,
    given_options,
    json_option,
    parse_time,
    parse_timedelta,
)
from pgqpy.cli.output import say, show_rows
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

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


STATES = {"event": "id", "consumer": "consumer", "state": "state"}
OF_ONE_EVENT = (
    "data", "extra1", "extra2", "extra3", "extra4", "delay", "deliver_at", "dedup_key", "dedup_for"
)  # fmt: skip


@click.group(cls=Noun)
def event() -> None:
    """Insert, list or cancel events; manage those that wait or are dead."""


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("data", required=False)
@click.option("--extra1", help="Free for the application.")
@click.option("--extra2", help="As extra1.")
@click.option("--extra3", help="As extra1.")
@click.option("--extra4", help="As extra1.")
@click.option(
    "--delay", metavar="TIME", callback=parse_timedelta, help="Due after 90s, 30min, 2h or 7d."
)
@click.option(
    "--at", "deliver_at", metavar="TIME", callback=parse_time, help="Due at 2026-01-31T14:00."
)
@click.option("--dedup-key", metavar="KEY", help="Insert nothing while this key is taken.")
@click.option(
    "--dedup-for", metavar="TIME", callback=parse_timedelta, help="How long: 90s, 30min, 2h, 7d."
)
@click.option("--file", type=click.File("rb"), help="Insert all events of FILE; - is stdin.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    help="Format of the file.  [default: by its extension, else jsonl]",
)
@connected
@click.pass_context
def insert(
    ctx: click.Context,
    /,
    target: Target,
    queue: str,
    type_: str | None,
    file: BinaryIO | None,
    form: str | None,
    **fields: Any,
) -> None:
    """Insert one event and print its id, or all events of a file and print their number.

    DATA is the payload as text. - reads it from stdin; without DATA the payload is null. With a key
    that is taken, nothing is inserted, and the id is that of the event that took it. With a delay
    or a time, consumers get the event then: pgqpy event list QUEUE delayed shows those that wait.

    A file goes into the queue in one transaction, by COPY; TYPE is for its events without one.
    jsonl: one object per line, with the fields type, data and extra1 to extra4. Data other than a
    string is stored as JSON. csv: a header with these names, then rows; an empty field is null.
    If a line is wrong, the error names its number and nothing is inserted.

    Example: pgqpy event insert orders placed '{"id": 17}'
    """
    given = given_options(ctx)
    if file is not None:
        for name in OF_ONE_EVENT:
            if name in given:
                raise click.UsageError(f"{given[name]} is for one event, not for --file")
        chosen = form or ("csv" if str(getattr(file, "name", "")).endswith(".csv") else "jsonl")
        with target.client() as client:
            click.echo(load_events(client, queue, file, form=chosen, default_type=type_))
        return
    if type_ is None:
        raise click.UsageError("Missing argument 'TYPE', or --file")
    if form is not None:
        raise click.UsageError("--format is for --file")
    _insert_one(target, queue, type_, **fields)


def _insert_one(
    target: Target,
    queue: str,
    type_: str,
    *,
    data: str | None,
    dedup_key: str | None,
    dedup_for: Any,
    **more: Any,
) -> None:
    if (dedup_key is None) != (dedup_for is None):
        raise click.UsageError("--dedup-key and --dedup-for belong together")
    if more["delay"] is not None and more["deliver_at"] is not None:
        raise click.UsageError("--delay and --at exclude each other")
    payload = sys.stdin.buffer.read() if data == "-" else data
    with target.client() as client:
        if dedup_key is None:
            click.echo(client.insert_event(queue, type_, payload, **more))
            return
        once = client.insert_event_once(
            queue, type_, payload, **more, dedup_key=dedup_key, dedup_for=dedup_for
        )
    click.echo(once.id)
    if not once.is_new:
        say(f"key {dedup_key} is taken by this event: nothing was inserted")


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("event_ids", metavar="ID...", nargs=-1, required=True, type=int)
@click.option("--consumer", shell_complete=complete.consumers, help="Hide them from this one only.")
@json_option
@connected
def cancel(
    target: Target, queue: str, event_ids: tuple[int, ...], *, consumer: str | None, as_json: bool
) -> None:
    """Hide events from all consumers that have not had them, or from one.

    Prints what happened for each consumer: cancelled: it does not get the event; delivered: it has
    had the event, or has it in its open batch; by ticks: it reads ranges of ticks, as Spark does,
    and gets the event; unknown: the queue has no such event for it.

    Example: pgqpy event cancel orders 1042 1043
    """
    with target.client() as client:
        if consumer is None:
            told = client.cancel_event(queue, event_ids)
        else:
            queries.consumer_info(client, queue, consumer)
            told = client.skip_event(queue, consumer, event_ids)
    show_rows([each._asdict() for each in told], STATES, as_json=as_json)


for command in (list_, show, retry, delete, schema):
    event.add_command(command)
