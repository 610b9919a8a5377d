"""The tick of an event is the first of the range whose snapshot sees its transaction."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from pgqpy.tick_ranges import Snapshot, TickFinder, parse_snapshot


@st.composite
def histories(draw):
    """Transactions that end in any order, and snapshots taken in between."""
    open_now: set[int] = set()
    next_xid, ticks, seen = 700, [], []
    for number in range(draw(st.integers(2, 12))):
        for _ in range(draw(st.integers(0, 6))):
            if open_now and draw(st.booleans()):
                open_now.remove(draw(st.sampled_from(sorted(open_now))))
            else:
                open_now.add(next_xid)
                next_xid += 1
        ended = frozenset(range(700, next_xid)) - open_now
        # xmax may be anything from the last ended transaction's successor on
        xmax = max(ended, default=699) + 1
        running = sorted(xid for xid in open_now if xid < xmax)
        ticks.append((10 * number, f"{min([*running, xmax])}:{xmax}:{','.join(map(str, running))}"))
        seen.append(ended)
    return ticks, seen


@given(histories())
def test_it_is_the_first_that_sees_the_transaction(history):
    ticks, seen = history
    finder = pickle.loads(pickle.dumps(TickFinder.between(ticks)))
    wanted = {
        xid: next(tick for (tick, _), ended in zip(ticks, seen, strict=True) if xid in ended)
        for xid in seen[-1] - seen[0]
    }
    xids = sorted(wanted)
    assert finder.find(xids).tolist() == [wanted[xid] for xid in xids]


def test_transactions_that_end_long_after_they_began_are_found():
    finder = TickFinder.between(
        [(1, "100:110:100,105"), (2, "100:120:100"), (3, "100:130:100"), (4, "140:140:")]
    )
    assert finder.find([100, 105, 110, 119, 120, 129, 130]).tolist() == [4, 2, 2, 2, 3, 3, 4]


def test_numbers_near_the_end_of_bigint_are_right():
    high = 2**63 - 10
    finder = TickFinder.between([(high, f"{high}:{high}:"), (high + 1, f"{high + 5}:{high + 5}:")])
    assert finder.find([high, high + 4]).tolist() == [high + 1, high + 1]


def test_a_snapshot_is_read():
    assert parse_snapshot("10:20:10,14") == Snapshot(20, frozenset({10, 14}))
    assert parse_snapshot("10:10:") == Snapshot(10, frozenset())
