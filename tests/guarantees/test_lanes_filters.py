"""A change of the filter beside a run that takes a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.guarantees.lanes import held_look, insert, runs

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

FILTER = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
ALL, OTHER = '{"types": ["t"]}', '{"types": ["other"]}'
AGED = "update pgq.tick set tick_time = tick_time - interval '1 minute'"  # a lane passes over these


def test_filter_changed_between_look_and_lock_passes_over_nothing(db: Database) -> None:
    (run,) = runs(db, 1, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    db.main.run(AGED)
    db.main.one(FILTER, OTHER)
    with held_look(db, run) as gate:
        late = run.take_later()
        gate.wait_for_arrival()
        assert db.main.one(FILTER, ALL) == 1
        gate.open()
        assert late.result(timeout=30) is None
    assert len(run.drain()) == 20


@pytest.mark.parametrize("back", [False, True])
def test_filter_changed_between_two_looks_passes_over_nothing(db: Database, *, back: bool) -> None:
    (run,) = runs(db, 1, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    db.main.run(AGED)
    db.main.one(FILTER, ALL)
    asking = "select batch_id from pgq.take_lane('q', 'c', %s, i_filter => %s)"
    with held_look(db, run, "check_asked_filter") as first, held_look(db, run) as second:
        late = run.session.later(asking, run.holder, Jsonb({"types": ["t", "t"]}))
        first.wait_for_arrival()
        assert db.main.one(FILTER, OTHER) == 1
        first.open()
        second.wait_for_arrival()
        if back:
            assert db.main.one(FILTER, ALL) == 1
        second.open()
        assert late.result(timeout=30) is None
    db.main.one(FILTER, ALL)
    assert len(run.drain()) == 20
