"""The stream of a log whose reader does not read, reads late, or has gone."""

from __future__ import annotations

import io
import os
import pty
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgqpy import log_stream
from pgqpy.log_format import lost_entries
from pgqpy.log_stream import LogStream
from tests.support.unread import fill
from tests.support.waiting import eventually

Ends = tuple[int, int]  # the descriptors to read from and to write to


def socket_pair() -> Ends:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


PAIRS = {"pipe": os.pipe, "terminal": pty.openpty, "socket": socket_pair}


@pytest.fixture(params=sorted(PAIRS))
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    yield from opened(PAIRS[request.param])


@pytest.fixture
def pipe() -> Iterator[Ends]:
    yield from opened(os.pipe)


def opened(pair: Callable[[], Ends]) -> Iterator[Ends]:
    reader, writer = pair()
    yield reader, writer
    for descriptor in (reader, writer):
        with suppress(OSError):
            os.close(descriptor)


def stream_to(writer: int) -> LogStream:
    text = io.TextIOWrapper(io.FileIO(writer, "w", closefd=False), encoding="utf-8")
    return LogStream(text, "{} lost".format)


def read(reader: int, size: int) -> bytes:
    """Return so many bytes; what a terminal is written comes a moment later."""
    found = b""
    while len(found) < size:
        assert select.select([reader], [], [], 30)[0], found
        found += os.read(reader, size - len(found))
    return found


def read_line(reader: int) -> str:
    found = b""
    while not found.endswith(b"\n"):
        found += read(reader, 1)
    return found.decode().replace("\r\n", "\n")


def is_empty(reader: int) -> bool:
    return not select.select([reader], [], [], 0)[0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "PATIENCE", 0.0)


@pytest.mark.usefixtures("impatient")
def test_entries_that_find_no_room_are_lost_and_counted_when_there_is_room_again(
    ends: Ends,
) -> None:
    reader, writer = ends
    stream = stream_to(writer)
    stream.write("before\n")
    assert read_line(reader) == "before\n"
    filled = fill(writer)
    for number in range(3):
        stream.write(f"lost {number}\n")
    read(reader, filled)
    eventually(lambda: select.select([], [writer], [], 0)[1])
    stream.write("after ä\n")
    assert read_line(reader) == "3 lost\n"
    assert read_line(reader) == "after ä\n"
    assert os.get_blocking(writer)  # of all processes that share it


@pytest.mark.usefixtures("impatient")
def test_entry_that_was_cut_ends_with_a_line_of_its_own(pipe: Ends) -> None:
    reader, writer = pipe
    stream = stream_to(writer)
    filled = fill(writer)
    read(reader, filled)
    stream.write("x" * filled * 2 + "\n")
    assert read(reader, filled) == b"x" * filled
    stream.write("next\n")
    assert [read_line(reader) for _ in range(3)] == ["\n", "1 lost\n", "next\n"]


@pytest.mark.usefixtures("impatient")
def test_room_that_another_process_takes_first_is_not_waited_for(
    pipe: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = pipe
    stream = stream_to(writer)
    filled = fill(writer)
    was_room = SimpleNamespace(register=lambda *_: None, poll=lambda _: [(writer, select.POLLOUT)])
    monkeypatch.setattr("select.poll", lambda: was_room)
    stream.write("lost\n")
    read(reader, filled)
    assert is_empty(reader)
    stream.write("next\n")
    assert [read_line(reader) for _ in range(2)] == ["1 lost\n", "next\n"]


@pytest.mark.parametrize("ends", ["pipe", "socket"], indirect=True)
def test_entry_larger_than_the_room_is_written_while_somebody_reads(ends: Ends) -> None:
    reader, writer = ends
    text = "x" * 1_000_000 + "\n"
    found = bytearray()

    def reads() -> None:
        while len(found) < len(text):
            found.extend(os.read(reader, 65536))

    thread = threading.Thread(target=reads, daemon=True)
    thread.start()
    stream_to(writer).write(text)
    thread.join(30)
    assert found.decode() == text


def test_entries_for_a_reader_that_has_gone_are_lost(pipe: Ends) -> None:
    reader, writer = pipe
    stream = stream_to(writer)
    os.close(reader)
    stream.write("lost\n")
    again, end = os.pipe()
    os.dup2(end, writer)
    os.close(end)
    stream.write("next\n")
    assert [read_line(again) for _ in range(2)] == ["1 lost\n", "next\n"]
    os.close(again)


def test_system_that_opens_nothing_without_blocking_writes_as_ever(
    pipe: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows, say."""
    reader, writer = pipe
    monkeypatch.delattr("select.poll")
    for name in ("O_NONBLOCK", "O_NOCTTY"):
        monkeypatch.delattr(os, name)
    stream_to(writer).write("line\n")
    assert read_line(reader) == "line\n"
    assert log_stream.open_anew(writer) is None


@pytest.mark.usefixtures("impatient")
def test_what_is_printed_on_standard_error_is_lost_and_counted_too(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = ends
    text = io.TextIOWrapper(io.FileIO(writer, "w", closefd=False), encoding="latin-1")
    monkeypatch.setattr("sys.stderr", text)
    LogStream(text, "{} lost".format).replace_stderr()
    filled = fill(writer)
    sys.stderr.write("lost\n")
    read(reader, filled)
    eventually(lambda: select.select([], [writer], [], 0)[1])
    sys.stderr.write("é →\n")
    assert read_line(reader) == "1 lost\n"
    assert read(reader, 1) == b"\xe9"
    assert read_line(reader) == " \\u2192\n"
    assert (sys.stderr.fileno(), sys.stderr.isatty()) == (writer, os.isatty(writer))


def test_standard_error_that_is_a_file_stays_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr("sys.stderr", file)
        LogStream(file, "{} lost".format).replace_stderr()
        assert sys.stderr is file


FORKS = """
import os, sys, threading
from pgqpy.log_stream import LogStream

stream, held, done = LogStream(sys.stderr, str), threading.Event(), threading.Event()

def hold():
    with stream._lock:
        held.set()
        done.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    stream.write("child\\n")
    os._exit(0)
os.waitpid(child, 0)
done.set()
"""


def test_child_that_was_forked_while_a_thread_wrote_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, timeout=30, check=True
    )
    assert done.stderr == b"child\n"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_notice_of_lost_entries_is_a_line_of_the_log(log_format: str) -> None:
    line = lost_entries(log_format)(3)
    assert "log entries lost" in line
    assert "warning" in line
    assert "\n" not in line
