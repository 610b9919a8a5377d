"""``event insert``: one event, or those of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import pgqpy
from tests.cli.support import Run, failed_with

pytestmark = pytest.mark.usefixtures("orders")

LOAD = ("event", "insert", "orders", "--file", "-")
Delivered = Callable[[], list[tuple[str | None, str | None, str | None]]]


@pytest.fixture
def delivered(orders: pgqpy.Client) -> Delivered:
    """Return what a consumer gets: (type, data, extra1) of each event."""

    def reader() -> list[tuple[str | None, str | None, str | None]]:
        orders.tick_queue("orders")
        batch = orders.next_batch("orders", "billing")
        assert batch
        return [(event.type, event.data, event.extra1) for event in orders.get_batch_events(batch)]

    return reader


def test_insert_prints_the_id(run: Run, delivered: Delivered) -> None:
    first = run("event", "insert", "orders", "placed", "hello", "--extra1", "x")
    second = run("event", "insert", "orders", "empty")
    assert (first.stdout, second.stdout) == ("1\n", "2\n")
    assert delivered() == [("placed", "hello", "x"), ("empty", None, None)]


def test_insert_reads_the_payload_from_stdin(run: Run, delivered: Delivered) -> None:
    text = "two\nlines ✓\\N\t"
    assert run("event", "insert", "orders", "placed", "-", input=text).exit_code == 0
    assert delivered() == [("placed", text, None)]


def test_call_for_a_key_that_is_taken_says_so(run: Run, delivered: Delivered) -> None:
    insert = ("event", "insert", "orders", "placed", "hello", "--dedup-key", "k")
    first, second = (run(*insert, "--dedup-for", "2h") for _ in range(2))
    assert (first.stdout, first.stderr) == ("1\n", "")
    assert (second.exit_code, second.stdout) == (0, "1\n")
    assert second.stderr == "key k is taken by this event: nothing was inserted\n"
    assert delivered() == [("placed", "hello", None)]
    later = (*insert[:5], "--dedup-key", "l", "--dedup-for", "2h", "--delay", "1h")
    assert [run(*later).stdout for _ in range(2)] == ["2\n", "2\n"]


def test_load_json_lines_from_stdin(run: Run, delivered: Delivered) -> None:
    lines = [
        {"type": "placed", "data": {"id": 17, "name": "é\\\t"}, "extra1": "x"},
        {"type": "placed", "data": "text"},
        {"type": "empty"},
        {"data": 5},
    ]
    text = "\ufeff" + "\n\n".join(json.dumps(line) for line in lines)
    result = run("event", "insert", "orders", "default", "--file", "-", input=text)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "4\n", "")
    assert delivered() == [
        ("placed", '{"id":17,"name":"é\\\\\\t"}', "x"),
        ("placed", "text", None),
        ("empty", None, None),
        ("default", "5", None),
    ]


def test_load_csv_from_a_file(run: Run, delivered: Delivered, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text('type,data,extra1\nplaced,"a ""quoted""\nline",\nplaced,,x\n')
    assert run("event", "insert", "orders", "--file", str(file)).stdout == "2\n"
    assert delivered() == [("placed", 'a "quoted"\nline', None), ("placed", None, "x")]


def test_load_csv_with_a_large_field(run: Run, delivered: Delivered) -> None:
    large = "x" * 200_000  # more than Python's csv takes by itself
    text = f"type,data\nplaced,{large}\n"
    assert run(*LOAD, "--format", "csv", input=text).stdout == "1\n"
    assert delivered() == [("placed", large, None)]


def test_load_of_nothing_is_zero(run: Run) -> None:
    assert run(*LOAD, input="").stdout == "0\n"


FINE = '{"type": "placed", "data": "x"}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON"]),
        ("[1]", ["not a JSON object"]),
        ('{"data": "x"}', ["no type"]),
        ('{"type": "a", "data": NaN}', ["NaN"]),
        ('{"type": "a", "data": [12345678901234567.89]}', ["12345678901234567.89", "digits"]),
        ('{"type": "a", "data": 1e400}', ["1e400", "digits"]),
        ('{"type": "a", "data": 1e99999999999999999999}', ["digits"]),
        ('{"type": "a", "data": {"b": 1, "b": 2}}', ["'b' twice"]),
        ('{"type": "a", "data": "\\u0000"}', ["NUL"]),
        ('{"type": "a", "data": "\\ud800"}', ["surrogate"]),
        ('{"type": "a", "data": {"x": "\\ud800"}}', ["surrogate"]),
        ('{"type": "a", "extra2": 5}', ["extra2"]),
        ('{"type": 5}', ["type"]),
        ('{"type": "a", "payload": 1}', ["payload", "extra4"]),
        ("[" * 100_000, ["not JSON"]),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_loaded(
    run: Run, delivered: Delivered, line: str, words: list[str]
) -> None:
    result = run(*LOAD, input=f"{FINE}\n{line}\n{FINE}")
    assert failed_with(result, 1, "line 3: ", "nothing was inserted", *words)
    assert delivered() == []


def test_a_bad_line_after_many_good_ones_loads_nothing(run: Run, delivered: Delivered) -> None:
    result = run(*LOAD, input=FINE * 20_000 + "oops\n")
    assert failed_with(result, 1, "line 20001: ")
    assert delivered() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type,data\na,1\nb\n", ["line 3: ", "1 field"]),
        ('type,data\na,"1\n', ["line 2: ", "not CSV"]),
        ("type,colour\na,red\n", ["line 1: ", "colour"]),
        ("type,data\n,1\n", ["line 2: ", "no type"]),
        ("type,data,data\na,1,2\n", ["line 1: ", "twice"]),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_loaded(
    run: Run, delivered: Delivered, text: str, words: list[str]
) -> None:
    result = run(*LOAD, "--format", "csv", input=text)
    assert failed_with(result, 1, *words)
    assert delivered() == []


def test_bytes_that_are_not_utf8_are_named(run: Run, delivered: Delivered) -> None:
    result = run(*LOAD, input=FINE.encode() + b'{"type": "\xff"}\n')
    assert failed_with(result, 1, "line 2: ", "UTF-8")
    assert delivered() == []


def test_a_payload_over_the_limit_is_named(run: Run, delivered: Delivered) -> None:
    huge = json.dumps({"type": "a", "data": "x" * (64 * 1024 * 1024 + 1)})
    assert failed_with(run(*LOAD, input=FINE + huge), 1, "line 2: ", "limit")
    assert delivered() == []


def test_call_for_a_delay_or_a_time_is_listed_until_it_is_due(
    run: Run, delivered: Delivered
) -> None:
    assert run("event", "insert", "orders", "placed", "b", "--delay", "2h").stdout == "1\n"
    far = ("event", "insert", "orders", "placed", "c", "--at", "2099-12-31T23:59+01:00")
    assert run(*far).stdout == "2\n"
    assert run("event", "insert", "orders", "placed", "a", "--at", "2001-01-01").stdout == "3\n"
    listed = json.loads(run("event", "list", "orders", "delayed", "--json").stdout)
    assert [row["ev_data"] for row in listed] == ["b", "c"]
    assert listed[1]["ev_deliver_at"].startswith("2099-12-31T22:59:00")
    first = run("event", "list", "orders", "delayed", "--limit", "1")
    assert "2099" not in first.stdout
    assert "--limit shows more" in first.stderr
    assert delivered() == [("placed", "a", None)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("placed a --delay 1h --at 2099-01-01", "exclude each other"),
        ("placed a --delay soon", "write 90s"),
        ("placed a --at noon", "write 2026-01-31T14:00"),
        ("placed a --dedup-key k", "belong together"),
        ("placed a --dedup-key k --dedup-for soon", "write 90s, 30min, 2h, 7d"),
        ("placed a --format csv", "--format is for --file"),
        ("placed a --file -", "DATA is for one event"),
        ("placed --file - --extra1 x", "--extra1 is for one event"),
        ("placed --file nowhere.jsonl", "nowhere.jsonl"),
        ("", "TYPE"),
    ],
)
def test_wrong_usage_is_told(run: Run, words: str, says: str) -> None:
    assert failed_with(run("event", "insert", "orders", *words.split()), 2, says)
