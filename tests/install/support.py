"""Helpers that the tests of the installation share."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy import install, manifest
from pgqpy.testing import EmbeddedServer

if TYPE_CHECKING:
    import pytest

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]

REPOSITORY = Path(__file__).parents[2]


def psql(
    server: EmbeddedServer, database: str, *args: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [str(server.bin_dir / "psql"), "-X", "-q", server.dsn(database), *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def works(connection: Connection) -> bool:
    """Carry one event through the engine."""
    connection.execute("select pgq.create_queue('q')")
    connection.execute("select pgq.register_consumer('q', 'c')")
    connection.execute("select pgq.insert_event('q', 'type', 'data')")
    connection.execute("select pgq.tick_queue('q')")
    rows = connection.execute(
        "select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)"
    ).fetchall()
    return rows == [("data",)]


def at_once(*connections: Connection) -> list[BaseException]:
    """Install by all of them at the same time; return what went wrong."""
    barrier = threading.Barrier(len(connections))

    def run(connection: Connection) -> int:
        barrier.wait()
        return install.install(connection)

    with ThreadPoolExecutor(len(connections)) as pool:
        running = [pool.submit(run, connection) for connection in connections]
    return [problem for each in running if (problem := each.exception())]


def make_release(monkeypatch: pytest.MonkeyPatch, *steps: str) -> None:
    """Ship these statements from now on, each as one more step after the shipped version."""
    shipped = max(piece.step or manifest.INITIAL for piece in manifest.pieces())
    last = shipped + len(steps)
    constant = "shipped constant int := {};"
    release = []
    for piece in manifest.pieces():
        if piece.file.endswith("/set_rights.sql"):  # the first file after the steps
            release += [_make_step(shipped + n, step) for n, step in enumerate(steps, start=1)]
        text = piece.text
        if piece.file == manifest.PREFLIGHT:
            text = text.replace(constant.format(shipped), constant.format(last))
            assert text != piece.text
        release.append(piece._replace(text=text))
    monkeypatch.setattr(manifest, "pieces", lambda: iter(release))
    monkeypatch.setattr("pgqpy.install.shipped_version", lambda: last)


def _make_step(version: int, statement: str) -> manifest.Piece:
    text = f"""
        do $step$
        begin
            if (select version from pgq.installation) >= {version} then
                return;
            end if;
            {statement};
            update pgq.installation set version = {version};
        end
        $step$;
    """
    return manifest.Piece(f"steps/{version:03}_made_up.sql", text, 1)
