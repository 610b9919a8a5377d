"""pgqpy archive: what the commands print, ask and refuse."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgqpy.archive import errors
from tests.cli.support import failed_with

if TYPE_CHECKING:
    import pgqpy
    from tests.cli.support import Connection, Run, RunJson

LATER = "update pgq.tick set tick_time = tick_time - interval '40 days'"


@pytest.fixture
def folder(client: pgqpy.Client, tmp_path: Path) -> str:
    """A place for an archive, and a queue with three events to archive."""
    client.create_queue("orders")
    for number in range(3):
        insert(client, f"event {number}")
    return str(tmp_path / "archive")


def insert(client: pgqpy.Client, data: str) -> None:
    client.insert_event("orders", "placed", data)
    client.connection.execute("select pgq.force_tick('orders')")
    client.connection.execute("select pgq.ticker('orders')")


@pytest.fixture
def archived(run: Run, folder: str) -> str:
    """An archive of three files."""
    done = run("archive", "run", "--queue", "orders", "--to", folder, "--max-events", "1")
    assert done.exit_code == 0, done.stderr
    return folder


def test_a_run_says_what_it_wrote(run: Run, folder: str) -> None:
    done = run("archive", "run", "--queue", "orders", "--to", folder)
    *files, last = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (0, "")
    assert all(line.endswith("event(s)") for line in files)
    assert last == f"archived 3 event(s) of orders in {len(files)} file(s)"
    again = run("archive", "run", "--queue", "orders", "--to", folder)
    assert again.stderr == "archived 0 event(s) of orders in 0 file(s)\n"


def test_the_list_shows_queues(run: Run, run_json: RunJson, archived: str) -> None:
    (row,) = run_json("archive", "list", archived)
    assert (row["queue"], row["files"], row["consumer"]) == ("orders", 3, "archive")
    files = list(Path(archived).rglob("*.parquet"))
    assert sum(file.stat().st_size for file in files) == row["bytes"]
    shown = run("archive", "list", archived).stdout.splitlines()
    assert shown[0].split()[:3] == ["queue", "files", "bytes"]
    assert shown[1].startswith("orders  3")


def test_verify_names_what_is_wrong(run: Run, archived: str) -> None:
    assert run("archive", "list", archived, "--verify").stderr == "3 file(s) read: no problem(s)\n"
    _, second, third = sorted(Path(archived).rglob("*.parquet"))
    third.write_bytes(third.read_bytes()[:-1])
    second.unlink()
    done = run("archive", "list", archived, "--verify", "--queue", "orders")
    assert done.exit_code == 1
    hole, damage = done.stdout.splitlines()
    assert f"{third.name} do not join" in hole
    assert f"{third.name} cannot be read" in damage


def test_expire_removes_old_files_but_the_newest(
    run: Run, folder: str, connection: Connection, client: pgqpy.Client
) -> None:
    connection.execute(LATER)
    to = ["--queue", "orders", "--to", folder]
    run("archive", "run", *to, "--max-events", "1")
    assert failed_with(run("archive", "expire", folder, "--older-than", "30d"), 1, "--yes")
    for age in ("9999999d", "50d"):
        done = run("archive", "expire", folder, "--older-than", age, "--yes")
        assert "nothing is older than" in done.stderr
    done = run("archive", "expire", folder, "--older-than", "30d", "--yes")
    assert done.stderr.startswith("removed 2 file(s) of orders, ")
    (newest,) = Path(folder).rglob("*.parquet")
    insert(client, "later")
    assert run("archive", "run", *to).exit_code == 0
    assert len(list(Path(folder).rglob("*.parquet"))) == 2
    assert newest.exists()
    assert run("archive", "list", folder, "--verify").exit_code == 0


def test_expire_asks_on_a_terminal(
    run: Run, folder: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(LATER)
    run("archive", "run", "--queue", "orders", "--to", folder, "--max-events", "1")
    monkeypatch.setattr("pgqpy.cli.archive.on_terminal", lambda: True)
    expire = ["archive", "expire", folder, "--older-than", "30d"]
    assert run(*expire, input="n\n").exit_code == 1
    assert len(list(Path(folder).rglob("*.parquet"))) == 3
    assert run(*expire, input="y\n").exit_code == 0
    assert len(list(Path(folder).rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("run --queue nope --to {}", 1, "no queue 'nope'"),
        ("run --queue orders --to nosuch://bucket", 2, "nosuch"),
        ("run --queue orders --to dropbox://bucket", 1, "dropbox"),
        ("list {} --queue nope", 1, "no archive of queue 'nope'"),
        ("list {} --verify --queue nope", 1, "no archive of queue 'nope'"),
        ("expire {} --queue nope --older-than 1d", 1, "no archive of queue 'nope'"),
        ("expire {} --older-than yesterday", 2, "no length of time"),
        ("list {}/1/{{}}", 1, "there is no folder"),
        ("list /nonexistent/archive", 1, "there is no folder"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    run: Run, archived: str, words: str, code: int, told: str
) -> None:
    done = run("archive", *(word.format(archived) for word in words.split()))
    assert failed_with(done, code, told)


def test_a_file_is_no_location_and_an_empty_folder_has_no_archive(
    run: Run, archived: str, tmp_path: Path
) -> None:
    (first, *_) = Path(archived).rglob("*.parquet")
    assert failed_with(run("archive", "list", str(first)), 1, "is no folder")
    tmp_path.joinpath("empty").mkdir()
    assert json.loads(run("archive", "list", str(tmp_path / "empty"), "--json").stdout) == []


@pytest.mark.parametrize("package", ["pyarrow", "fsspec", "numpy"])
def test_without_the_extra_one_line_says_how_to_install_it(
    run: Run, package: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        errors, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    for command in ("run --queue orders --to", "list", "expire --older-than 1d"):
        done = run("archive", *command.split(), folder)
        assert failed_with(done, 1, f"{package} is needed: pip install 'pgqpy[archive]'")
