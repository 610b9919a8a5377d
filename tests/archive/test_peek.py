"""``event list --archive`` reads the archive and the queue as one range: each event once."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from pgqpy.archive.run import ArchiveRun
from pgqpy.cli import archive as archive_commands
from pgqpy.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    from pgqpy import Event
    from tests.archive.shop import Shop


def peek(shop: Shop, *options: str, dsn: str = "") -> Result:
    command = ["--dsn", dsn or shop.dsn, "event", "list", "orders", "--archive", shop.location]
    return CliRunner().invoke(app, [*command, *options], prog_name="pgqpy")


def peeked(shop: Shop, *options: str) -> list[str]:
    result = peek(shop, "--json", "--limit", "100", *options)
    assert result.exit_code == 0, result.stderr
    return [row["data"] for row in json.loads(result.stdout)]


def error(shop: Shop, *options: str, dsn: str = "") -> str:
    result = peek(shop, *options, dsn=dsn)
    assert result.exit_code == 1, result.stdout
    (line,) = result.stderr.splitlines()
    return line


def rotate(shop: Shop) -> None:
    """Let rotation take all that the consumers have had."""
    shop.client.set_queue_config("orders", "rotation_period", "1 microsecond")
    for _ in range(4):
        shop.client.connection.execute("select pgq.maint_rotate_tables_step1('orders')")
        shop.client.connection.execute("select pgq.maint_rotate_tables_step2()")
        shop.tick()


def live(shop: Shop) -> int:
    query = "select count(*) from pgq.event_1"
    ((count,),) = shop.client.connection.execute(query).fetchall()
    return int(count)


def test_archive_comes_first_and_then_the_queue(shop: Shop) -> None:
    shop.insert("a", "b")
    shop.insert("c")
    shop.run(max_events=1)
    assert live(shop) == 3
    assert peeked(shop) == ["a", "b", "c"]
    rotate(shop)
    shop.insert("d", "e")
    assert live(shop) == 2
    assert peeked(shop) == ["a", "b", "c", "d", "e"]
    assert peeked(shop, "--limit", "2") == ["a", "b"]
    assert peeked(shop, "--limit", "4") == ["a", "b", "c", "d"]
    assert peeked(shop, "--limit", "0") == []
    shop.run()
    rotate(shop)
    assert live(shop) == 0
    assert peeked(shop) == ["a", "b", "c", "d", "e"]


CASES = [
    [],
    ["--type", "placed"],
    ["--type", "p*", "--extra1", "eu"],
    ["--type", "*"],
    ["--type", "placed", "--type", "x*", "--extra2", "x%"],
    ["--since", "2026-01-01T12:10+00"],
    ["--since", "2026-01-01T12:10+00", "--until", "2026-01-01T12:30+00"],
    ["--until", "2026-01-01T12:20+00", "--limit", "1"],
    ["--tick", "3"],
    ["--tick", "4", "--type", "placed"],
    ["--since", "2026-01-01T12:15+00", "--limit", "2"],
]


@pytest.mark.parametrize("archived", [2, 4])
def test_archive_shows_what_the_queue_would_show(shop: Shop, archived: int) -> None:
    chosen = (("new", "eu", "x%"), ("paid", "us", None), ("placed", "eu", None), ("xy", "eu", "x%"))
    execute = shop.client.connection.execute
    for number, (kind, extra1, extra2) in enumerate(chosen, 1):
        shop.client.insert_event("orders", kind, str(number), extra1=extra1, extra2=extra2)
        shop.tick()
        time = f"2026-01-01 12:{number - 1}0"
        moved = "update pgq.event_template set ev_time = %s where ev_data = %s"
        execute(moved, [f"{time}+00", str(number)])
        moved = "update pgq.tick set tick_time = %s where tick_id = %s"
        execute(moved, [f"{time}:30+00", number + 1])
        execute("update pgq.tick set tick_time = '2026-01-01 11:00+00' where tick_id = 1")
        if number == archived:
            shop.run(max_events=1)
    options = ["--dsn", shop.dsn, "event", "list", "orders", "--json"]
    for case in CASES:
        expected = CliRunner().invoke(app, [*options, *case], prog_name="pgqpy")
        assert json.loads(peek(shop, "--json", *case).stdout) == json.loads(expected.stdout), case


def test_ticks_that_were_thinned_do_not_double_events(shop: Shop) -> None:
    for data in "abcd":
        shop.insert(data)
    shop.run()
    shop.insert("e")
    shop.client.unregister_consumer("orders", "archive")
    seam = shop.files[-1].to_tick
    shop.client.connection.execute("delete from pgq.tick where tick_id = %s", [seam])
    assert peeked(shop) == ["a", "b", "c", "d", "e"]


def test_file_that_no_consumer_stands_behind_is_not_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.archive("a")
    shop.insert("b")
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(ArchiveRun, "advance", killed)
        shop.run()
    beyond = shop.files[-1]
    assert beyond.to_tick > shop.position
    shop.store.remove(beyond.path)
    Path(shop.location, beyond.path).write_bytes(b"half")
    assert peeked(shop) == ["a", "b"]


def killed(*_: Any) -> None:
    raise KeyboardInterrupt


def test_events_that_neither_has_are_named(shop: Shop) -> None:
    shop.archive("a")
    seam = shop.position
    shop.client.unregister_consumer("orders", "archive")
    shop.insert("b")
    rotate(shop)
    shop.insert("c")
    assert f"events after tick {seam}" in error(shop)
    assert peeked(shop, "--limit", "1") == ["a"]
    assert peeked(shop, "--tick", str(shop.last_tick - 1)) == ["c"]


def test_expired_events_are_named(shop: Shop) -> None:
    shop.archive_each(*"abc")
    first, second, _ = shop.files
    shop.store.remove(first.path)
    assert peeked(shop) == ["a", "b", "c"], "the queue still has it"
    rotate(shop)
    assert peeked(shop) == ["b", "c"]
    assert f"begins at tick {second.from_tick}" in error(shop, "--tick", str(first.from_tick))
    assert "the archive holds events from " in peek(shop, "--since", "1d").stderr
    shop.store.remove(second.path)
    shop.archive("d")
    shop.store.remove(shop.files[0].path)
    assert peeked(shop) == ["d"]


def test_missing_file_in_the_middle_is_an_error(shop: Shop) -> None:
    shop.archive_each(*"abc")
    shop.store.remove(shop.files[1].path)
    assert "do not join" in error(shop)


def test_history_that_a_failover_lost_is_read_from_the_queue(shop: Shop) -> None:
    shop.archive_each(*"abc")
    common = shop.files[1].to_tick
    shop.client.unregister_consumer("orders", "archive")
    execute = shop.client.connection.execute
    execute("update pgq.event_template set ev_data = 'other' where ev_data = 'c'")
    moved = "update pgq.tick set tick_time = tick_time + interval '1 s' where tick_id > %s"
    execute(moved, [common])
    assert peeked(shop) == ["a", "b", "other"]
    execute(moved, [0])
    assert "its ticks have other times here" in error(shop)


def test_rotation_while_files_are_read_leaves_no_hole(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.archive("a")
    shop.insert("b")
    shop.insert("c")
    read = archive_commands._archived
    turns = []

    def read_slowly(*args: Any) -> Iterator[Event]:
        yield from read(*args)
        turns.append(1)
        if len(turns) == 1:
            shop.run()
            rotate(shop)
            shop.insert("d")

    monkeypatch.setattr(archive_commands, "_archived", read_slowly)
    assert peeked(shop) == ["a", "b", "c", "d"]
    assert len(turns) == 2


def test_reader_of_files_needs_the_right_to_read_the_queue(
    shop: Shop, login: Callable[..., str]
) -> None:
    shop.archive("a")
    told = error(shop, dsn=make_conninfo(shop.dsn, user=login("pgq_writer")))
    assert "permission denied" in told
    assert "grant pgq_reader" in told


def test_wrong_location_type_and_damaged_file_are_one_line(shop: Shop) -> None:
    shop.insert("a")
    assert "holds no archive of queue 'orders'" in error(shop)
    shop.run()
    assert "may only end a type" in error(shop, "--type", "p*d")
    (file,) = shop.files
    Path(shop.location, file.path).write_bytes(b"nothing")
    assert "cannot be read" in error(shop) or "no archive" in error(shop)


def test_other_queue_or_database_of_the_same_name_is_refused(shop: Shop) -> None:
    shop.archive("a")
    other = "update pgq.queue set queue_created = queue_created - interval '1 day'"
    shop.client.connection.execute(other)
    assert "this is another database" in error(shop)
    shop.client.drop_queue("orders", force=True)
    shop.client.create_queue("orders")
    assert "holds no archive of queue 'orders', which has the id 2" in error(shop)
