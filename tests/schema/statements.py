"""Statements that tests of SQL functions share, and how they fail."""

from __future__ import annotations

import psycopg
import pytest

OPEN = "select pgq.open_stage('q', %s, %s)"
INSERT = "select pgq.insert_event('q', 't', %s)"
COMMIT = "select pgq.commit_stage('q', %s, %s, %s, %s)"
STATES = """
    select stage_writer, stage_epoch, sign(stage_released_by)::int
      from pgq.stage order by 1, 2, 3"""
WAITING, GIVEN, GIVEN_UP = None, 1, 0


def state(sql, statement, *params):
    """Return the SQLSTATE with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        sql(statement, *params)
    return caught.value.sqlstate
