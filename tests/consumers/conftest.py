"""Fixtures: a queue ticked by hand, and consumers of both kinds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.consumers.harness import Maker, Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pgqpy


@pytest.fixture
def queue(client: pgqpy.Client) -> Queue:
    """A queue with a consumer registered."""
    return Queue(client)


@pytest.fixture(params=["threads", "asyncio"])
def make(request: pytest.FixtureRequest, dsn: str) -> Iterator[Maker]:
    """Make consumers: each test runs with Consumer and with AsyncConsumer."""
    maker = Maker(dsn, asynchronous=request.param == "asyncio")
    yield maker
    maker.close()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the consumers say, information too."""
    caplog.set_level(logging.INFO, "pgqpy.consumers")
    return caplog


@pytest.fixture(params=["threads", "asyncio"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    """Whether consumers are made for asyncio."""
    return bool(request.param == "asyncio")
