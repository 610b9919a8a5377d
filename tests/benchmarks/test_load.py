"""What the cases of latency, growth, xmin, rotation and catching up conclude from: no server."""

from __future__ import annotations

import pytest

from benchmarks.cases import rotation, xmin
from benchmarks.cases.latency import Setting, judge
from benchmarks.figures import Wrong
from benchmarks.load.feed import Fed
from benchmarks.load.latency import Round, collect, summary, verify_once
from benchmarks.load.produce import parse_schedule
from benchmarks.load.rotations import RotationWatch
from benchmarks.load.schedule import Schedule
from benchmarks.pgbench import Transaction
from benchmarks.xmin import hold
from benchmarks.xmin.course import Course, Part, course
from benchmarks.xmin.dead import Sample
from benchmarks.xmin.hold import take

MS = 1_000_000  # nanoseconds


def test_producers_share_a_schedule_without_gap_or_overlap():
    whole = Schedule(10**9, 3 * 10**9, 100, producers=3)
    parts = [whole._replace(number=number) for number in range(3)]
    assert sorted(event for part in parts for event in part.numbers) == [*range(200)]
    assert [part.due(150) for part in parts] == [10**9 + 1500 * MS] * 3
    assert parse_schedule([str(value) for value in parts[1]]) == parts[1]


def test_latency_counts_what_was_due_after_the_warm_up():
    warm = 1000 * MS
    # number, begun, late, took: the first is of the warm-up, the last was due in it
    calls = [
        (0, 900 * MS, 0, MS),
        (1, 1100 * MS, MS, MS),
        (2, 1200 * MS, 0, MS),
        (3, 1001 * MS, 2 * MS, MS),
    ]
    arrived = {0: 999, 1: 1104, 2: 1208, 3: 1500}
    found = summary(calls, [(n, b, arrived[n] * MS) for n, b, _, _ in calls], warm, cpu=2.5)
    assert (found.p50, found.max, found.cpu) == (8.0, 8.0, 2.5)
    assert found.late == 1.0
    assert found.rate == pytest.approx(3 / 0.201)  # the last one was inserted then


def test_being_ahead_is_judged_against_each_peer():
    mine = Round(100, 100, 0, p50=4, p90=5, p99=8, max=9, cpu=2)
    setting = Setting("pgqpy", sync=True, rate=100)
    found = {setting: [mine], setting._replace(peer="pgmq"): [mine._replace(p50=50, p99=6)]}
    verdicts = {target.text.partition(" at ")[0]: target.met for target in judge(found, setting)}
    assert verdicts == {
        "p50": True,
        "p99": True,
        "p50 of pgmq over ours": True,
        "p99 of pgmq over ours": False,
    }


def test_the_end_of_a_run_is_compared_with_its_beginning():
    cycles = [(at, 1000 if at < 5000 else 3000) for at in range(0, 10_000, 10)]
    events = [(at, 5000 if at < 5000 else 20_000) for at in range(0, 10_000, 10)]
    early = [(-1, 10**9)]  # before the beginning
    found = course([*early, *cycles], events, (0, 10_000), [])
    assert (found.first, found.last) == (Part(1.0, 5.0), Part(3.0, 20.0))
    assert (found.cycles, found.cycle_growth, found.latency_growth) == (100.0, 3.0, 4.0)
    assert found.slow[0] == (0.0, 1.0)
    assert found.slow[-1] == (9.0, 3.0)


def held(*dead: dict[str, dict[str, int]]) -> Course:
    samples = [Sample(float(at), found) for at, found in enumerate(dead)]
    return Course(100.0, Part(1.0, 5.0), Part(1.0, 5.0), [], samples)


def test_dead_rows_of_event_tables_at_any_time_are_wrong():
    clean = {"events": {"event_1_0": 0}, "small": {"tick": 5}}
    xmin.judge(held(clean, clean))
    with pytest.raises(Wrong, match="dead rows in event tables"):
        xmin.judge(held(clean, {"events": {"event_1_0": 1}, "small": {}}, clean))


def test_more_dead_rows_of_small_tables_than_the_bound_are_wrong():
    def both(dead):
        return {"events": {}, "small": {"tick": 1, "position": dead}}

    most = xmin.DEAD_ROWS - 1
    xmin.judge(held(both(most)))
    with pytest.raises(Wrong, match="position"):
        xmin.judge(held(both(0), both(most + 1), both(0)))
    assert held(both(7), both(3)).most_by_table() == {"tick": 1, "position": 7}


def test_an_event_that_arrives_twice_or_for_another_is_wrong():
    verify_once("pgqpy", [2, 0, 1], 3)
    for numbers in ([0, 1], [0, 1, 2, 2], [0, 1, 1], [0, 1, 3]):
        with pytest.raises(Wrong):
            verify_once("pgqpy", numbers, 3)


def test_events_of_an_earlier_round_that_come_again_are_left_out():
    class Arrivals:
        answers = iter([[(0, 100, 150), (7, 90, 160)], [], [(1, 101, 170)]])

        def ask(self, _question):
            return next(self.answers)

    assert collect(Arrivals(), 100, 2, patience=60) == [(0, 100, 150), (1, 101, 170)]


class Consumer:
    """Answers like the process that does the cycles."""

    def __init__(self, latencies, numbers):
        self.found = {"cycles": [], "events": latencies, "numbers": numbers}

    def ask(self, question):
        return self.found if question == "take" else len(self.found["events"])


def test_events_delivered_twice_or_instead_of_others_are_wrong():
    latencies = [(0, 1)] * 4
    assert take("pgqpy", Consumer(latencies, 0 + 1 + 2 + 3), Fed(4, 0.0), 4)["events"] == latencies
    with pytest.raises(Wrong, match="delivered: 5"):
        take("pgqpy", Consumer([(0, 1)] * 5, 6), Fed(4, 0.0), 4)
    with pytest.raises(Wrong, match="sum of their numbers"):
        take("pgqpy", Consumer(latencies, 0 + 1 + 2 + 2), Fed(4, 0.0), 4)
    with pytest.raises(Wrong, match="inserted: 3"):
        take("pgqpy", Consumer(latencies, 6), Fed(3, 0.0), 4)


def test_a_consumer_that_never_gets_there_is_wrong_but_a_peers_result(monkeypatch):
    monkeypatch.setattr(hold, "PATIENCE", 0.01)
    latencies = [(0, 1)] * 3
    assert take("pgmq", Consumer(latencies, 3), Fed(4, 0.0), 4)["events"] == latencies
    with pytest.raises(Wrong, match="delivered: 3, should be 4"):
        take("pgqpy", Consumer(latencies, 3), Fed(4, 0.0), 4)


def test_a_peer_that_delivers_nothing_at_the_end_took_for_ever():
    found = course([(0, 1000)], [(0, 5000)], (0, 10_000), [])
    assert found.first == Part(1.0, 5.0)
    assert found.last == Part(float("inf"), float("inf"))


def test_an_insert_beside_a_rotation_overlaps_the_time_after_a_switch():
    watch = RotationWatch("")
    watch.switches = [50.0, 100.0]  # the first is from before
    ends = [50.1, 99.9, 100.001, 100.4, 100.6]
    found = [rotation.is_beside(Transaction(end, 12.0, 2.0), watch) for end in ends]
    assert found == [False, False, True, True, False]
    # It began before the switch, and was over long after.
    assert rotation.is_beside(Transaction(101.0, 2000.0, 0.0), watch)
