"""The database of a guarantee's test."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import Database

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db(dsn: str) -> Iterator[Database]:
    """A fresh database with sessions to interleave; tests that take it alone bite mutants too."""
    with closing(Database(dsn)) as database:
        yield database
