"""Root's first embedded server makes a user of the system; two may be the first at once."""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgqpy import embedded
from tests.support.processes import PythonProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")

MAKE = """
import grp, pwd, sys
from pgqpy.embedded import make_system_user
make_system_user(sys.argv[1])
print(pwd.getpwnam(sys.argv[1]).pw_gid == grp.getgrnam(sys.argv[1]).gr_gid)
"""


@pytest.fixture
def name() -> Iterator[str]:
    """Name a user that is not there; the server's own user stays as it is."""
    name = f"pgqpy_test_{os.getpid()}"
    yield name
    subprocess.run(["userdel", name], check=True)  # with its group
    with pytest.raises(KeyError):
        grp.getgrnam(name)


def test_two_first_uses_at_once_wait_for_each_other(name: str) -> None:
    with open(embedded.FIRST_USE, "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        both = [PythonProcess("-c", MAKE, name) for _ in range(2)]
        try:
            eventually(lambda: all(map(_waits, both)))
            with pytest.raises(KeyError):
                pwd.getpwnam(name)
            fcntl.flock(f, fcntl.LOCK_UN)
            assert [each.wait() for each in both] == [0, 0]
            assert [each.output() for each in both] == ["True\n", "True\n"]
        finally:
            for each in both:
                each.close()
    embedded.make_system_user(name)  # it is there: nothing to do


def test_only_root_can_hold_the_lock(name: str) -> None:
    embedded.make_system_user(name)
    file = Path(embedded.FIRST_USE)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o600)


def test_user_that_cannot_be_made_is_an_error_with_the_reason(name: str) -> None:
    subprocess.run(["useradd", "--system", "--no-user-group", name], check=True)
    with pytest.raises(RuntimeError, match=f"made no user {name}: useradd: .* already exists"):
        embedded.make_system_user(name)


def _waits(process: PythonProcess) -> bool:
    """Say whether a process waits for a file's lock."""
    assert process.popen.poll() is None, process.output()
    locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any({"->", "FLOCK", str(process.pid)} <= set(line.split()) for line in locks)
