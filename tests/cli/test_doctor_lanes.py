"""The doctor on lanes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import pgqpy
from pgqpy import calls
from tests.cli.support import Connect, Connection, Examine

Take = Callable[[int], str]
LOCK = """
    select pg_advisory_lock_shared(7366516, hashtext(%s)), pg_advisory_lock_shared(7366514, sub_id)
      from pgq.registration where sub_parent is null
"""
TAKE = "select batch_id, worker from pgq.take_lane('orders', 'billing', %s)"
AGE = "update pgq.position set {} = now() - interval '16 minutes' where pos_batch > 0"


@pytest.fixture
def sessions(client: pgqpy.Client, connect: Connect) -> dict[int, Connection]:
    """The sessions of two runs of a consumer with two lanes, and events for both."""
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    client.call(calls.lanes.set_lanes("orders", "billing", 2, "extra1"))
    made = {number: connect() for number in (1, 2)}
    for number, session in made.items():
        session.execute(LOCK, [f"app1:{number}:x"])
    fill(client)
    return made


def fill(client: pgqpy.Client) -> None:
    client.insert_events("orders", [("t", "x", f"key{number}") for number in range(12)])
    client.tick_queue("orders")


@pytest.fixture
def take(sessions: dict[int, Connection]) -> Take:
    """Let a run take a lane: its name."""

    def taker(number: int) -> str:
        row = sessions[number].execute(TAKE, [f"app1:{number}:x"]).fetchone()
        assert row is not None
        return str(row[1])

    return taker


def age_ticks(connection: Connection) -> None:
    """Move all ticks into the past, and take one now."""
    connection.execute(b"update pgq.tick set tick_time = now() - interval '16 minutes'")
    connection.execute(b"select pgq.tick_queue('orders')")


def other(lane: str) -> str:
    return {"extra1-1-of-2": "extra1-2-of-2", "extra1-2-of-2": "extra1-1-of-2"}[lane]


def said(worst: dict[str, tuple[str, str]], check: str) -> str:
    """What the doctor said, without the seconds that the test itself took."""
    return re.sub(r" min \d+ s", " min", worst[check][1])


def test_lanes_at_work_and_lanes_that_wait_a_moment_are_fine(examine: Examine, take: Take) -> None:
    take(1)
    code, worst = examine()
    assert (code, "lane" in worst, "worker" in worst) == (0, False, False)


def test_a_lane_behind_the_others_that_nobody_works_on_is_told(
    examine: Examine, take: Take, client: pgqpy.Client
) -> None:
    age_ticks(client.connection)
    fill(client)
    lane = take(1)
    code, worst = examine()
    assert (code, worst["lane"][0]) == (1, "fail")
    (line,) = said(worst, "lane").splitlines()
    words = f"nobody works on lane {other(lane)} of consumer billing of queue orders"
    assert f"{words}, which is 16 min behind: 2 worker(s) run, and have 1 lane(s)" in line
    assert "pgqpy consumer show orders billing" in line
    assert "start more workers (pgqpy consumer run MODULE:CLASS)" in line


def test_lanes_that_are_old_alike_are_left_to_min_lag(
    examine: Examine, take: Take, client: pgqpy.Client
) -> None:
    age_ticks(client.connection)
    _, worst = examine()
    assert "lane" not in worst


def test_a_lane_is_told_when_all_processes_have_made_no_progress_for_long(
    examine: Examine, take: Take, client: pgqpy.Client, sessions: dict[int, Connection]
) -> None:
    lane = take(1)
    sessions[2].close()
    client.connection.execute("update pgq.tick set tick_time = now() - interval '16 minutes'")
    _, worst = examine()
    assert "lane" not in worst
    client.connection.execute(AGE.format("pos_moved").encode())
    _, worst = examine()
    assert f"nobody works on lane {other(lane)} of consumer billing" in worst["lane"][1]
    assert "1 worker(s) run, and have 1 lane(s)" in worst["lane"][1]
    assert f"lane {lane} of consumer billing of queue orders has finished nothing" in said(
        worst, "worker"
    )


def test_lanes_that_no_process_runs_are_told_once(
    examine: Examine, client: pgqpy.Client, sessions: dict[int, Connection]
) -> None:
    for session in sessions.values():
        session.close()
    age_ticks(client.connection)
    fill(client)
    client.connection.execute("update pgq.position set pos_active = now() - interval '16 minutes'")
    code, worst = examine()
    assert (code, worst["running"][0], "lane" in worst) == (1, "fail", False)
    assert "no session runs consumer billing of queue orders: about 24 event(s) wait" in said(
        worst, "running"
    )


def test_the_batch_of_a_dead_process_is_a_lanes(
    examine: Examine, take: Take, client: pgqpy.Client, sessions: dict[int, Connection]
) -> None:
    lane = take(1)
    take(2)
    sessions[1].close()
    dead = f"{AGE.format('pos_active')} and pos_holder = 'app1:1:x'"
    client.connection.execute(dead.encode())
    code, worst = examine()
    assert (code, worst["worker"][0]) == (1, "fail")
    line = said(worst, "worker")
    assert f"process 1 on app1, which had lane {lane}, died, last seen 16 min ago" in line
    assert "the 1 worker(s) that live are busy" in line


def test_a_change_of_lanes_that_does_not_go_on_is_told(
    examine: Examine, take: Take, client: pgqpy.Client, sessions: dict[int, Connection]
) -> None:
    take(1)
    sessions[1].execute("select pgq.finish_batch(pos_batch) from pgq.position where pos_batch > 0")
    client.call(calls.lanes.set_lanes("orders", "billing", 3, "extra1"))
    _, worst = examine()
    assert "lane" not in worst
    client.connection.execute("update pgq.position set pos_moved = now() - interval '16 minutes'")
    code, worst = examine()
    assert (code, worst["lane"][0]) == (0, "warn")
    line = said(worst, "lane")
    words = "the lanes of consumer billing of queue orders are being changed"
    assert f"{words}, and nothing has moved for 16 min: 1 old lane(s) are not at tick 2 yet" in line
    assert "run it until the change is done (pgqpy consumer run MODULE:CLASS)" in line
