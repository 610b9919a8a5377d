"""The result of a simulation: figures of both systems, what was verified, the events concerned."""

from __future__ import annotations

from pgqpy.simulate.checker import Content, History, Stored, check
from pgqpy.simulate.main import FAILED, PASSED, Result, figures, findings
from pgqpy.simulate.options import Options
from tests.simulate.story import Story

SECOND = 1_000_000_000  # nanoseconds


def history(*, handled: int) -> History:
    """Twelve events of one key, a second apart; the first of them were handled."""
    history = History()
    for event in range(1, 13):
        content = Content(event, "a", "type1")
        history.stored.append(Stored(event, content))
        line = {"event": event, **content._asdict()}
        history.add(
            [{"at": 0, "do": "insert", **line}, {"at": 1, "do": "commit", "events": [event]}]
        )
        if event <= handled:
            at = event * SECOND
            begin = {"at": at, "do": "begin", "run": 0, "retry": None, **line}
            end = {"at": at + SECOND, "do": "end", "run": 0, "event": event, "ok": True}
            history.add([begin, end])
    history.close()
    return history


def result(ours: History, peer: History | None = None) -> Result:
    return Result(Options(rate=1.0, seed=7), ours, check(ours), peer)


def test_a_passed_simulation_names_every_promise() -> None:
    ours = history(handled=12)
    ours.killed = {7: 0, 8: 0, 9: 0}
    lines = [line for line, _ in findings(result(ours))]
    assert [line.split(maxsplit=1)[0] for line in lines[:-1]] == ["ok"] * 5
    assert lines[-1] == PASSED
    assert {row[0]: row[1] for row in figures(result(ours))} == {
        "events committed": "12",
        "events rolled back": "0",
        "events handled": "12",
        "handled per second": "1",
        "insert to handled p50": "7.00 s",
        "insert to handled p99": "12.00 s",
        "order broken": "0",
        "handled beside another of its key": "0",
        "handled twice": "0",
        "lost": "0",
        "handlers failed": "0",
        "events given up": "0",
        "workers killed": "3",
        "handled again after a kill": "0",
        "seed": "7",
    }


def test_a_failed_simulation_lists_the_events_up_to_ten() -> None:
    lines = [line.strip() for line, _ in findings(result(history(handled=0)))]
    assert lines[0] == "BROKEN nothing lost: 12 time(s)"
    assert lines[1] == "event 1 was committed, and neither handled nor given up"
    assert lines[11] == "and 2 more"
    assert lines[-1] == FAILED


def test_an_event_that_comes_again_and_again_is_listed_once() -> None:
    again = history(handled=12)
    again.handlings += [again.handlings[0]] * 5
    lines = [line.strip() for line, _ in findings(result(again))]
    assert "BROKEN nothing handled twice: 1 time(s)" in lines


def test_what_the_peer_breaks_is_counted_and_is_not_our_verdict() -> None:
    story = Story()
    for event in range(1, 7):
        story.insert(event)
    story.play("1 (3 (2 3) 2) 4 4 6").add("empty", run=0)
    story.history.close()
    compared = result(history(handled=12), story.history)
    rows = {name: values for name, *values in figures(compared)}
    assert rows["events committed"] == ["12", "6"]
    assert rows["events handled"] == ["12", "5"]
    assert rows["order broken"] == ["0", "1"]
    assert rows["handled beside another of its key"] == ["0", "1"]
    assert rows["handled twice"] == ["0", "1"]
    assert rows["lost"] == ["0", "1"]
    assert rows["polls that found nothing"] == ["", "1"]
    lines = [line for line, _ in findings(compared)]
    assert lines[-1] == PASSED
    assert any("polls again after 1.00 s" in line for line in lines)
    assert any("no worker was killed there" in line for line in lines)
