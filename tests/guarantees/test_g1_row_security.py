"""G1 under row-level security: an event that it would hide is an error, not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

READS = {
    "get_batch_events": "select * from pgq.get_batch_events({batch})",
    "get_batch_cursor": "select * from pgq.get_batch_cursor({batch}, 'c', 10)",
    "batch_event_sql": "select pgq.batch_event_sql({batch})",
    "get_tick_events": "select * from pgq.get_tick_events('q', {first}, {last})",
    "tick_event_sql": "select pgq.tick_event_sql('q', {first}, {last})",
}
SWITCH = "do $$ begin execute format('alter table %s {} row level security', {}); end $$"
TABLE = "(select queue_data_pfx from pgq.queue)"


@pytest.mark.parametrize("read", READS)
def test_hidden_event_is_an_error(db: Database, read: str) -> None:
    db.queue()
    db.main.insert("a")
    last = db.main.tick()
    reader = db.open()
    reader.run("set role pgq_reader")
    batch = reader.next()
    query = READS[read].format(batch=batch, first=last - 1, last=last)
    for switched in ("enable", "disable", "enable"):
        db.main.run(SWITCH.format(switched, TABLE))
        if switched == "enable":
            with refused("42501"):
                reader.all(query)
        else:
            reader.begin()
            assert reader.all(query)
            reader.commit()


def test_consumer_goes_on_when_its_events_are_shown_again(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    db.main.tick()
    reader = db.open()
    reader.run("set role pgq_reader")
    db.main.run(SWITCH.format("enable", TABLE))
    batch = reader.next()
    with refused("42501"):
        reader.events(batch)
    db.main.run(SWITCH.format("disable", TABLE))
    assert reader.drain() == ["a"]
