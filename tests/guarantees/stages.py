"""Stages of the queue `q`: how a task writes one, how it is released, how a batch is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.schema.statements import OPEN

if TYPE_CHECKING:
    from tests.guarantees.sessions import Session

DROP = "select pgq.drop_stage('q', %s)"
MAINT = "select pgq.maint_stages()"
WAITING = "select count(*) from pgq.stage where stage_released_by is null"
READ = "select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s)"

Event = tuple[int, int, str]  # id, txid, payload


def open_stage(session: Session, writer: str = "w", epoch: int | None = 1) -> int | None:
    """Make a session's transaction a stage."""
    stage: int | None = session.one(OPEN, writer, epoch)
    return stage


def stage(session: Session, *payloads: str, writer: str = "w", epoch: int | None = 1) -> int:
    """Write a stage as a task does, in a transaction of its own."""
    session.begin()
    opened = open_stage(session, writer, epoch)
    assert opened is not None
    for payload in payloads:
        session.insert(payload)
    session.commit()
    return opened


def commit_stage(
    session: Session, *stages: int, writer: str = "w", epoch: int | None = 1
) -> int | None:
    """Give stages away: the committing transaction, or None if that was done before."""
    params = (writer, epoch, list(stages), len(stages))
    txid = "select case pgq.commit_stage('q', %s, %s, %s, %s) when 1 then txid_current() end"
    giver: int | None = session.one(txid, *params)
    return giver


def age(session: Session) -> None:
    """Let a day pass for all stages that wait."""
    session.run("update pgq.stage set stage_time = now() - interval '25 hours'")


def read(session: Session, batch: int | None) -> list[Event]:
    """Read a batch in all the ways there are, and see that they agree."""
    events = session.all(READ, batch)
    query = session.one("select pgq.batch_event_sql(%s)", batch)
    assert session.all(f"select ev_id, ev_txid, ev_data from ({query}) e") == events
    session.run("begin")
    first = session.all(
        "select ev_id, ev_txid, ev_data from pgq.get_batch_cursor(%s, 'k', 2)", batch
    )
    rest = [(row[0], row[2], row[5]) for row in session.all("fetch all from k")]
    session.run("commit")
    assert first + rest == events
    return events
