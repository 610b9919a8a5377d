"""What the tests of stages ask of the database."""

from __future__ import annotations

import psycopg
import pytest

COMMIT = "select pgq.commit_stage('q', %s, %s, %s, %s)"
EVENTS = "select ev_type, ev_data, ev_extra1 from pgq.event_1 order by ev_id"
STAGES = "select relname from pg_class where relname ~ '^stage_[0-9]+$' order by 1"


def state(sql, statement, *params):
    """Return the SQLSTATE with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        sql(statement, *params)
    return caught.value.sqlstate
