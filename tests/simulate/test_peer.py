"""The peer's table and worker: what they keep, and that a statement without order is seen."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import connect
from pgqpy.simulate import peer
from pgqpy.simulate.checker import ALONE, History, Stored, check
from pgqpy.simulate.log import LineLog, LogReader
from pgqpy.simulate.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgqpy import Client

WORKERS = 2
WITHOUT_ORDER = """
update msg_queue set status = 'P'
 where msg_id = (select msg_id from msg_queue where queue_type = %s and status = 'N'
                  order by msg_id limit 1 for update skip locked)
returning msg_id, queue_type, order_id
"""


@pytest.fixture
def peers(dsn: str) -> Iterator[list[Client]]:
    """Connections of workers, where the table holds three messages of one key."""
    clients = [connect(f"{dsn} options='-c search_path=peer'") for _ in range(WORKERS)]
    clients[0].connection.execute("create schema peer")
    peer.make_table(clients[0].connection, None)
    for number in range(3):
        peer.insert(clients[0], "type1", 0, number)
    yield clients
    for client in clients:
        client.close()


def handled(peers: list[Client], folder: Path) -> History:
    """Let all workers look for a message at the same time, once."""
    gate = Barrier(WORKERS)
    options = Options(work=(0.3, 0.3), fail=0.0, delmsg=True)

    def work(run: int, client: Client) -> None:
        log = LineLog(folder / f"{run}.jsonl", run=run)
        gate.wait()
        peer.take_one(client.connection, log, options, ["type1"])
        log.close()

    threads = [Thread(target=work, args=each) for each in enumerate(peers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = History()
    history.add(LogReader(folder).new_lines())
    history.stored = [Stored(it.event, it.content) for it in history.handlings]
    return history


def test_its_statement_takes_one_message_of_a_key(peers: list[Client], tmp_path: Path) -> None:
    history = handled(peers, tmp_path)
    assert [it.event for it in history.handlings] == [0]
    left = peers[0].connection.execute("select msg_id from msg_queue order by 1").fetchall()
    assert left == [(1,), (2,)]


def test_a_statement_without_order_is_seen(
    peers: list[Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "NEXT", WITHOUT_ORDER)
    found: list[Any] = check(handled(peers, tmp_path))
    assert ALONE in {it.promise for it in found}
