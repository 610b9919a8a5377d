"""What cannot be claimed costs a claim nothing, however much of it there is (G6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.inflight import call, receive, shared
from tests.guarantees.sessions import MORE_PAGES, RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

FILL = """
    insert into pgq.event_1_0 (ev_type, ev_data, ev_extra1)
    select 't', g, {} from generate_series(1, {}) g"""
CLAIM = "select * from pgq.receive('q', 's')"
CYCLES = """
    do $$
    declare
        v_id bigint;
        v_token bigint;
    begin
        for i in 1 .. {} loop
            select ev_id, token into v_id, v_token from pgq.receive('q', 's');
            perform pgq.done('q', 's', v_token, array[v_id]);
            commit;
        end loop;
    end $$"""
STATES = "select run_token, count(*) from pgq.inflight where run_token < 0 group by 1"


def claim_pages(session: Session) -> int:
    """Return how many pages a claim looks at that finds an event at once."""
    return min(session.pages(CLAIM) for _ in range(3))


def fill(db: Database, key: str, count: int) -> None:
    """Insert events, and read them all."""
    db.main.run(FILL.format(key, count))
    for _ in range(count // 1000 + 2):
        db.main.one(
            "select pgq.refill(r, 1, true, 0) from pgq.registration r where sub_key = 'extra1'"
        )


def test_delayed_and_waiting_events_cost_a_claim_nothing(db: Database) -> None:
    shared(db, key="extra1")
    fill(db, "'k' || g", 100)
    before = claim_pages(db.main)
    fill(db, "'w' || g % 1500", 3000)
    fill(db, "'d' || g", 3000)
    for _ in range(3):
        assert call(db.main, "retry", receive(db.main, 1000), "1 hour") > 0
    fill(db, "'l' || g", 100)
    states = dict(db.main.all(STATES))
    assert states[-2] >= 1500
    assert states[-1] >= 2000
    assert claim_pages(db.main) <= before + 2 * MORE_PAGES


@pytest.mark.parametrize(("key", "keys"), [(None, 1), ("extra1", 30), ("extra1", 500)])
def test_claims_do_not_slow_down_under_an_old_snapshot(
    db: Database, key: str | None, keys: int
) -> None:
    """PGQ's subscription rows, and any table of jobs, walk over what they deleted."""
    shared(db, key=key)
    db.main.run(FILL.format(f"g % {keys}", 3000))
    db.main.run(CYCLES.format(50))
    before = claim_pages(db.main)
    old = db.open()
    old.begin(RR)
    db.main.run(CYCLES.format(2000))
    for _ in range(2):  # the mark becomes what the sequence was at the sweep before
        db.main.run("update pgq.front set front_swept = '-infinity'")
        receive(db.main, alone=True)
    assert claim_pages(db.main) <= before + 2 * MORE_PAGES
    db.main.run("update pgq.front set front_low = 0, front_back = 0")
    assert claim_pages(db.main) > before + 3 * MORE_PAGES  # so the marks are what helps


def test_claims_do_not_slow_down_when_the_tables_were_analysed_empty(db: Database) -> None:
    shared(db)
    for table in ("inflight", "front", "piece"):
        db.main.run(f"analyze pgq.{table}")
    db.main.run(FILL.format("null", 20_000))
    db.main.run(CYCLES.format(20))
    before = claim_pages(db.main)
    for _ in range(10):
        receive(db.main, 1000)
    assert claim_pages(db.main) <= before + 2 * MORE_PAGES
