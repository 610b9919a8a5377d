"""Root runs the embedded server as another user, whose processes may be hostile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.embedded import SYSTEM_USER, EmbeddedServer, embedded_server
from pgqpy.sandbox import Contents, embedded_database
from tests.support.servers import memory

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="the server runs as the user that started it, unless that is root"
)

MINE = "root's own text\n"
NAMES = ("password", "log", "data", "socket", "programs", "logs")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file of root that nobody else may change or own."""
    file = tmp_path / "victim"
    file.write_text(MINE)
    file.chmod(0o600)
    yield file
    assert file.read_text() == MINE
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o600)


def _plant(victim: Path, link: Path) -> bool:
    """Make a symbolic link, as the server's user; say whether that was possible."""
    command = ["ln", "-sfn", str(victim), str(link)]
    done = subprocess.run(
        command, check=False, capture_output=True, user=SYSTEM_USER, extra_groups=[]
    )
    return not done.returncode and link.is_symlink()


def test_links_in_the_directory_lead_root_nowhere(
    victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted: list[bool] = []
    create = EmbeddedServer.create

    def create_later(server: EmbeddedServer, settings: Any) -> None:
        planted.extend(_plant(victim, server.directory / name) for name in NAMES)
        create(server, settings)

    monkeypatch.setattr(EmbeddedServer, "create", create_later)
    with embedded_server(within=memory()) as server:
        assert planted == [False] * len(NAMES)
        number, kept = server.data / "postmaster.pid", server.data / "kept"
        server.execute("mv", str(number), str(kept))
        assert _plant(victim, number)
        with pytest.raises(OSError, match="symbolic links"):
            _ = server.pid
        server.execute("mv", str(kept), str(number))


def test_a_link_instead_of_the_configuration_leads_root_nowhere(
    victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted: list[bool] = []
    run = EmbeddedServer.run

    def run_and_plant(server: EmbeddedServer, program: str, *args: str) -> str:
        output = run(server, program, *args)
        if program == "initdb":
            planted.append(_plant(victim, server.data / "postgresql.conf"))
        return output

    monkeypatch.setattr(EmbeddedServer, "run", run_and_plant)
    with pytest.raises(RuntimeError, match=r"postgresql\.conf"), embedded_server():
        pass
    assert planted == [True]


def test_logs_and_programs_are_out_of_the_users_reach(victim: Path) -> None:
    contents = Contents(command="simulate", queue="pgqpy_simulate")
    with embedded_database(contents, 1, lambda _: None) as database:
        assert database.programs
        assert not _plant(victim, database.logs / "ticker.log")
        assert not _plant(victim, database.programs / "pgbench")
        with database.start("ticker", ["echo", "ticks"]) as child:
            assert child.wait(30) == 0
            assert child.output() == "ticks\n"
