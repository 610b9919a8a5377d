"""``make demo`` on a terminal: Ctrl-C reaches the demo only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """#!/bin/sh
# Stands where pgqpy demo is: it ends at SIGINT with this exit code. A signal that comes between two
# commands is handled after the second: that must not be one that waits for ever, such as read.
trap 'exit {code}' INT
echo runs
while :; do sleep 1; done
"""

# Ctrl-C reaches the processes whose terminal it is.
ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("code", "ends_with", "word"), [(0, 0, "passed"), (1, 2, "FAILED"), (130, 2, "FAILED")]
)
def test_ctrl_c_ends_make_as_the_demo_ends(
    tmp_path: Path, code: int, ends_with: int, word: str
) -> None:
    program, stamp = tmp_path / "pgqpy", tmp_path / "stamp"
    program.write_text(PROGRAM.format(code=code))
    program.chmod(0o755)
    stamp.touch()
    ours, theirs = pty.openpty()
    make = ["make", "--no-print-directory", "demo", f"BIN={tmp_path}", f"STAMP={stamp}"]
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *make],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
    )
    os.close(theirs)
    shown = b""
    try:
        while b"runs" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, b"\x03")
        while block := _read(ours):
            shown += block
        assert process.wait(60) == ends_with, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert f"make demo: {word}" in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the end of a terminal
        return b""
