"""What a process has claimed: the order of keys, suspects, what is dropped. No database."""

from __future__ import annotations

from datetime import datetime, timezone
from operator import attrgetter

from pgqpy.calls.inflight import Claim
from pgqpy.consumers.in_hand import InHand, Pace
from pgqpy.records import Event

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def event(name):
    """Make an event whose key is its first letter; `-1` has none."""
    key = None if name[0] == "-" else name[0]
    return Event(int(name[1:]), NOW, 1, None, "t", name, key)


def claimed(*names, suspect=False, lists=False):
    """Return what is in hand after a claim."""
    hand = InHand(attrgetter("extra1"), in_lists=lists)
    hand.add("q", 1, Claim(7, suspect, [event(name) for name in names]))
    return hand


def give(hand, *, written=True):
    """Give all that may begin; return the works."""
    return list(iter(lambda: hand.give(all_is_written=written), None))


def names(works):
    """Return what the works hold."""
    return [each.data for work in works for each in work.events]


def test_events_of_a_key_begin_when_the_one_before_has_ended():
    hand = claimed("a1", "-2", "a3", "b4", "-5", "a6")
    first = give(hand)
    assert names(first) == ["a1", "-2", "b4", "-5"]
    hand.end(first[0])
    (second,) = give(hand)
    assert names([second]) == ["a3"]
    hand.end(second)
    assert names(give(hand)) == ["a6"]


def test_later_events_of_a_key_are_dropped_with_it():
    hand = claimed("a1", "a2", "b3")
    first = give(hand)
    hand.end(first[0], drops_key=True)
    assert give(hand) == []
    assert hand.drop() == []
    hand.add("q", 1, Claim(8, suspect=False, events=[event("a9")]))
    assert names(give(hand)) == ["a9"]


def test_suspects_begin_when_nothing_else_is_in_hand():
    hand = claimed("a1")
    hand.add("q", 1, Claim(8, suspect=True, events=[event("b2"), event("c3")]))
    (first,) = give(hand)
    assert hand.has_suspects
    hand.end(first)
    assert give(hand, written=False) == []
    assert names(give(hand)) == ["b2", "c3"]
    assert hand.has_suspects


def test_what_workers_have_not_got_is_dropped():
    hand = claimed("a1", "a2", "b3")
    first = hand.give(all_is_written=True)
    assert sorted(names(hand.drop())) == ["a2", "b3"]
    assert hand.tokens == {7}
    hand.end(first)
    assert hand.tokens == set()


def test_a_list_is_one_work():
    assert [len(work.events) for work in give(claimed("a1", "a2", "b3", lists=True))] == [3]


def test_fast_handlers_get_events_ahead():
    pace = Pace()
    assert pace.ahead(8) == 0
    pace.note(0.001)
    assert pace.ahead(8) == 400
    for _ in range(100):
        pace.note(1.0)
    assert pace.ahead(8) == 0
