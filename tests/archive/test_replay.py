"""``archive replay``: archived events come again to one consumer, each once after any kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner

from pgqpy import calls
from pgqpy.archive import files, replay
from pgqpy.cli.app import app
from pgqpy.cli.archive import SECRET
from tests.archive.test_peek import rotate
from tests.support.gates import shut_gate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.archive.shop import Shop
    from tests.support.processes import PythonProcess

    Connect = Callable[..., psycopg.Connection[Any]]
    Spawn = Callable[..., PythonProcess]

CODE = """
import sys
from pgqpy.cli import main
main(sys.argv[1:])
"""
GATE = """
    create function public.wait_here() returns trigger language plpgsql as $$ begin
    if new.ev_data = '{}' and current_setting('application_name') <> 'passes' then
        perform pg_advisory_xact_lock_shared({});
    end if;
    return new; end $$;
    create trigger wait_here before insert on pgq.retry_queue
        for each row execute function public.wait_here()"""
LIVES = "select from pg_stat_activity where pid = %s"
PLACE = "select replay_events, replay_done is not null from pgq.replay"


def command(shop: Shop, *options: str, consumer: str = "billing") -> list[str]:
    named = ["archive", "replay", "orders", consumer, "--from", shop.location]
    return ["--dsn", shop.dsn, *named, *options]


def run(shop: Shop, *options: str, code: int = 0, **named: str) -> str:
    result = CliRunner().invoke(app, command(shop, *options, **named), prog_name="pgqpy")
    assert result.exit_code == code, result.stderr
    return result.stderr.splitlines()[-1]


def error(shop: Shop, *options: str, **named: str) -> str:
    return run(shop, *options, code=1, **named)


def take(shop: Shop, consumer: str = "billing") -> list[str | None]:
    """Take all that there is, with what is due again."""
    while shop.client.call(calls.maintain.maint_retry_events()):
        pass
    shop.tick()
    found = []
    while (batch := shop.client.next_batch("orders", consumer)) is not None:
        found += [event.data for event in shop.client.get_batch_events(batch)]
        shop.client.finish_batch(batch)
    return found


@pytest.fixture
def billed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Events 1 to 6 in files of three, with row groups of two, that billing has had."""
    monkeypatch.setattr(files, "GROUP_ROWS", 2)
    monkeypatch.setattr(files, "LIST_ROWS", 1)
    shop.client.register_consumer("orders", "billing")
    shop.insert("1", "2", "3")
    shop.insert("4", "5", "6")
    shop.run(max_events=1)
    assert take(shop) == list("123456")
    return shop


def test_events_come_again_though_rotation_took_them(billed: Shop) -> None:
    rotate(billed)
    billed.client.register_consumer("orders", "reports")
    billed.insert("7")
    assert run(billed) == "inserted 6 event(s) again for billing on orders"
    assert take(billed) == list("7123456")
    assert take(billed, "reports") == ["7"]


def test_times_choose_events(billed: Shop) -> None:
    billed.client.connection.execute(
        "update pgq.event_template"
        " set ev_time = '2026-01-01 12:00+00'::timestamptz + ev_data::int * interval '1 hour'"
    )
    for file in billed.files:
        billed.store.remove(file.path)
    billed.client.unregister_consumer("orders", "archive")
    billed.run(max_events=1)
    said = run(billed, "--since", "2026-01-01T14:00Z", "--until", "2026-01-01T17:00Z")
    assert said == "inserted 3 event(s) again for billing on orders"
    assert take(billed) == ["2", "3", "4"]


def test_same_command_again_inserts_nothing_unless_it_is_told_to(billed: Shop) -> None:
    run(billed, "--until", "1h")
    again = "this replay is done, it inserted 0 event(s) by "
    assert again in error(billed, "--until", "1h")
    run(billed)
    assert "this replay is done, it inserted 6 event(s) by " in error(billed)
    assert take(billed) == list("123456")
    assert run(billed, "--again") == "inserted 6 event(s) again for billing on orders"
    assert take(billed) == list("123456")


def test_what_the_consumer_has_yet_to_get_is_left_out(billed: Shop) -> None:
    billed.archive("7", "8")
    said = run(billed)
    assert said == (
        "inserted 6 event(s) again for billing on orders; "
        "left out 2 that it has yet to get or does not take"
    )
    assert take(billed) == list("78123456")


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (1, "rolled back"),  # the first and the last event of a group
        (6, "committed"),
        (3, "rolled back"),  # the only one
        (3, "committed"),
    ],
)
def test_each_event_comes_once_after_a_kill(
    billed: Shop, connect: Connect, spawn: Spawn, event: int, ends: str
) -> None:
    keeper = connect()
    with shut_gate(keeper) as gate:
        keeper.execute(GATE.format(event, gate.key).encode())
        process = spawn("-c", CODE, *command(billed))
        pid = gate.wait_for_arrival()
        process.wait_until_asleep()  # else the server may not have all of its pipeline
        process.kill()
        if ends == "rolled back":
            keeper.execute("select pg_terminate_backend(%s)", [pid])
    eventually(lambda: not keeper.execute(LIVES, [pid]).fetchall())
    ((before, done),) = keeper.execute(PLACE).fetchall()
    groups = {1: (0, 2), 3: (2, 3), 6: (5, 6)}
    assert before == groups[event][ends == "committed"]
    assert not done
    assert run(billed) == "inserted 6 event(s) again for billing on orders"
    assert sorted(filter(None, take(billed))) == list("123456")
    assert "this replay is done, it inserted 6" in error(billed)


def test_replay_of_an_age_goes_on_with_its_first_times(
    billed: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, calls = replay._insert, []

    def killed(*args: Any, **options: Any) -> int:
        calls.append(args)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return insert(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(replay, "_insert", killed)
        CliRunner().invoke(app, command(billed, "--since", "1h"), prog_name="pgqpy")
    assert "another replay for consumer 'billing' is unfinished" in error(billed)
    billed.client.connection.execute(
        "update pgq.replay set replay_since = (select max(ev_time) from pgq.event_template)"
    )
    assert run(billed, "--since", "1h") == "inserted 3 event(s) again for billing on orders"
    assert take(billed) == ["1", "2", "6"]


def test_what_expires_before_a_replay_goes_on_is_named(billed: Shop, connect: Connect) -> None:
    first, second = billed.files
    billed.archive("7")
    take(billed)
    begin = "select pgq.begin_replay('orders', 'billing', %s, '-infinity', 'infinity')"
    connect().execute(begin, [f"--from {billed.location}"])
    connect().execute("update pgq.replay set replay_tick = %s", [first.to_tick])
    for file in (first, second):
        billed.store.remove(file.path)
    result = CliRunner().invoke(app, command(billed), prog_name="pgqpy")
    lost = f"the events after tick {first.to_tick}, up to tick {second.to_tick}, have expired"
    assert lost in result.stderr
    assert take(billed) == ["7"]


def test_no_password_of_a_place_is_kept(shop: Shop) -> None:
    shop.client.register_consumer("orders", "billing")
    shop.insert("a")
    shop.location = "memory://someone:secret@replayed"
    shop.run()
    run(shop)
    ((asked,),) = shop.client.connection.execute("select replay_asked from pgq.replay").fetchall()
    assert asked == "--from memory://replayed"


@pytest.mark.parametrize(
    ("location", "stored"),
    [
        ("abfs://one@shop.dfs.core.windows.net/x", "abfs://one@shop.dfs.core.windows.net/x"),
        ("simplecache::abfss://two@shop/x", "simplecache::abfss://two@shop/x"),
        ("az://one:secret@shop/x", "az://shop/x"),
        ("https://secret@shop/x@y", "https://shop/x@y"),
        ("simplecache::s3://key:secret@shop/x", "simplecache::s3://shop/x"),
        ("/srv/a@b", "/srv/a@b"),
    ],
)
def test_a_container_is_kept_but_no_secret(location: str, stored: str) -> None:
    assert SECRET.sub(r"\1", location) == stored


def test_two_processes_do_not_insert_twice(billed: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    insert, turns = replay._insert, []

    def overtaken(*args: Any, **options: Any) -> int:
        turns.append(1)
        if len(turns) == 2:
            run(billed)
        return insert(*args, **options)

    monkeypatch.setattr(replay, "_insert", overtaken)
    assert "another process runs the replay" in error(billed)
    assert take(billed) == list("123456")


def test_times_beyond_pythons_come_back_as_they_were(shop: Shop) -> None:
    raw = "select pgq.insert_event_raw('orders', %s, %s, null, 3, 't', 'd', null, '', 'x', 'y')"
    times = [
        "infinity",
        "-infinity",
        "0044-03-15 12:00+00 BC",
        "2255-06-06 00:00:00.123457+00",
        "9999-12-31 23:59:59.999999+00",
        "20000-07-01 02:03:04.000001+00",
        "1969-12-31 23:59:59.999999+00",
    ]
    shop.client.register_consumer("orders", "billing")
    for number, time in enumerate(times, 1):
        shop.client.connection.execute(raw, [number, time])
    shop.tick()
    shop.run()
    take(shop)
    zone = f"alter role current_user in database {shop.client.connection.info.dbname} set timezone"
    shop.client.connection.execute(f"{zone} = 'America/New_York'".encode())
    run(shop)
    query = """
        select e.ev_id, r.ev_time = e.ev_time, r.ev_retry, r.ev_type, r.ev_data, r.ev_extra1,
               r.ev_extra2, r.ev_extra3, r.ev_extra4
          from pgq.event_1 e join pgq.retry_queue r using (ev_id) order by 1"""
    rows = shop.client.connection.execute(query).fetchall()
    same = (True, None, "t", "d", None, "", "x", "y")
    assert [tuple(row) for row in rows] == [(n, *same) for n in range(1, len(times) + 1)]


def test_wrong_archives_and_consumers_are_one_line(billed: Shop, tmp_path: Any) -> None:
    assert "--from: " not in error(billed, "--from", str(tmp_path / "none"))
    assert "holds no archive" in error(billed, "--from", str(tmp_path / "none"))
    assert "is no time" in run(billed, "--since", "yesterday", code=2)
    assert "'none' is not registered" in error(billed, consumer="none")
    assert "reads ranges of ticks" in error(billed, consumer="archive")


def test_only_an_administrator_may_replay(billed: Shop, connect: Connect) -> None:
    other = connect()
    for role in ("pgq_reader", "pgq_writer", "pgq_ticker"):
        other.execute(f"set role {role}".encode())
        call = "select pgq.begin_replay('orders', 'billing', 'a', '-infinity', 'infinity')"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute(call)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("select from pgq.replay")
        other.execute("reset role")
