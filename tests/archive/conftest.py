"""A queue whose events are archived to a folder, and what the tests ask about both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.archive.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    import pgqpy


@pytest.fixture
def shop(dsn: str, client: pgqpy.Client, tmp_path: Path) -> Shop:
    """A queue `orders` without events, and a folder without files."""
    client.create_queue("orders")
    return Shop(dsn, client, str(tmp_path / "archive"))
