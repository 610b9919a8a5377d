"""The doctor on shared consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy.doctor import inflight

if TYPE_CHECKING:
    import pgqpy
    from tests.cli.support import Connection, Examine

WHERE = ("orders", "letters")


@pytest.fixture
def letters(client: pgqpy.Client) -> pgqpy.Client:
    """A client, and an event of a shared consumer that is claimed, and two of its key that wait."""
    client.create_queue("orders")
    client.register_consumer(*WHERE, shared=True, key="extra1")
    client.insert_event("orders", "placed", "1", extra1="a")
    client.receive(*WHERE, wait=0, key="extra1")
    for data in "23":
        client.insert_event("orders", "placed", data, extra1="a")
    client.tick_queue("orders")
    assert client.receive(*WHERE, wait=0, key="extra1") == []
    return client


def test_a_consumer_at_work_is_fine(examine: Examine, letters: pgqpy.Client) -> None:
    _, worst = examine()
    assert worst["inflight"] == ("ok", "1 shared consumer(s), none is held up; \n")
    assert "crash" not in worst
    assert worst["running"][0] == "ok"


def test_an_event_that_is_claimed_for_hours_is_told(
    examine: Examine, letters: pgqpy.Client, connection: Connection
) -> None:
    connection.execute("update pgq.inflight set run_claimed = run_claimed - interval '2 h'")
    level, told = examine()[1]["inflight"]
    assert level == "warn"
    assert "a receiver has had an event of consumer letters of queue orders for 2 h" in told


@pytest.mark.parametrize("delayed", [True, False])
def test_a_key_for_which_many_wait_is_told(
    examine: Examine,
    letters: pgqpy.Client,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    delayed: bool,
) -> None:
    assert examine()[1]["inflight"][0] == "ok"
    monkeypatch.setattr(inflight, "HOT", 2)
    if delayed:
        connection.execute("select pgq.retry(%s, %s, run_token, null, '1 h') from pgq.inflight"
                           " where run_token > 0", WHERE)  # fmt: skip
    level, told = examine()[1]["inflight"]
    assert level == "warn"
    state = "delayed" if delayed else "claimed"
    assert (
        f"key a of consumer letters of queue orders wait behind event 1, which is {state}" in told
    )
    assert ("pgqpy event retry orders letters 1 lets it come now" in told) == delayed


def test_a_front_that_stands_still_is_told(
    examine: Examine, letters: pgqpy.Client, connection: Connection
) -> None:
    letters.insert_event("orders", "placed", "4", extra1="a")
    connection.execute("update pgq.front set front_moved = now() - interval '20 min'")
    assert "has not looked for new events for 20 min" in examine()[1]["inflight"][1]
    connection.execute("select pgq.set_consumer_limits('orders', 'letters', 1, 1)")
    level, told = examine()[1]["inflight"]
    assert (level, "its limit_in_flight of 1 is reached" in told) == ("warn", True)


def test_a_crash_with_events_in_hand_is_told(
    examine: Examine, letters: pgqpy.Client, connection: Connection
) -> None:
    connection.execute("update pgq.inflight set run_part = 1, run_crashes = 2 where run_token > 0")
    level, told = examine()[1]["crash"]
    assert level == "warn"
    assert "1 event(s) of consumer letters of queue orders died" in told
    assert "2 time(s) with one of them alone" in told


def test_events_in_flight_that_nobody_takes_are_a_failure(
    examine: Examine, letters: pgqpy.Client, connection: Connection
) -> None:
    connection.execute("select pgq.release('orders', 'letters', run_token, null)"
                       " from pgq.inflight where run_token > 0")  # fmt: skip
    connection.execute("update pgq.position set pos_active = pos_active - interval '1 h'")
    connection.execute("update pgq.event_template set ev_time = ev_time - interval '1 h'")
    places = "select ctid from pgq.event_template where ev_id = any (run_ids) order by ev_id"
    connection.execute(f"update pgq.inflight set run_places = array({places})".encode())
    level, told = examine()[1]["running"]
    assert level == "fail"
    assert "event(s) wait, the oldest for 1 h" in told
    assert "or the program that calls receive" in told
