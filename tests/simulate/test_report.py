"""The result of a simulation: figures, what was verified, the events concerned."""

from __future__ import annotations

from pgqpy.simulate.checker import Content, History, Stored
from pgqpy.simulate.main import FAILED, PASSED, figures, findings, judge
from pgqpy.simulate.options import Options
from pgqpy.simulate.scenario import Played

SECOND = 1_000_000_000  # nanoseconds


def history(*, handled: int) -> History:
    """Twelve events of one key, a second apart; the first of them were handled."""
    history = History()
    for event in range(1, 13):
        content = Content(event, "a", "paid")
        history.stored.append(Stored(1, event, content))
        line = {"event": event, **content._asdict()}
        history.add(
            [{"at": 0, "do": "insert", **line}, {"at": 0, "do": "commit", "events": [event]}]
        )
        if event <= handled:
            at = event * SECOND
            begin = {"at": at, "do": "begin", "run": 0, "retry": None, **line}
            end = {"at": at + SECOND, "do": "end", "run": 0, "event": event, "ok": True}
            history.add([begin, end])
    history.close()
    return history


def test_a_passed_simulation_names_every_promise() -> None:
    result = judge(Options(fill=0, rate=1.0, seed=7), Played(history(handled=12), 3))
    lines = [line for line, _ in findings(result)]
    assert [line.split(maxsplit=1)[0] for line in lines[:-1]] == ["ok"] * 5
    assert lines[-1] == PASSED
    assert dict(figures(result)) == {
        "events committed": "12",
        "events rolled back": "0",
        "events handled": "12",
        "handlers failed": "0",
        "events given up": "0",
        "workers killed": "3",
        "handled again after a kill": "0",
        "events/s": "1",
        "latency p50, commit to handler": "6.00 s",
        "latency p95, commit to handler": "11.00 s",
        "latency p99, commit to handler": "11.00 s",
        "seed": "7",
    }


def test_a_failed_simulation_lists_the_events_up_to_ten() -> None:
    result = judge(Options(shared=True), Played(history(handled=0), 0))
    lines = [line.strip() for line, _ in findings(result)]
    assert lines[0] == "BROKEN nothing lost: 12 time(s)"
    assert lines[1] == "event 1 was committed, and neither handled nor given up"
    assert lines[11] == "and 2 more"
    assert lines[-1] == FAILED
    assert not any("order per key" in line and "ok" in line for line in lines)


def test_an_event_that_comes_again_and_again_is_listed_once() -> None:
    again = history(handled=12)
    again.handlings += [again.handlings[0]] * 5
    lines = [line.strip() for line, _ in findings(judge(Options(), Played(again, 0)))]
    assert "BROKEN nothing handled twice: 1 time(s)" in lines
