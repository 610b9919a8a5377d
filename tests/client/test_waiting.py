"""Waits of tasks: a cancellation is never lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pgqpy.client.waiting import AsyncBell

if TYPE_CHECKING:
    from collections.abc import Generator


class Turn:
    """A turn of the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        """Let all other tasks run once."""
        yield


@pytest.mark.parametrize("turns", range(4))
def test_a_wait_that_is_cancelled_as_the_bell_rings_ends_the_task(turns: int) -> None:
    async def play() -> None:
        bell = AsyncBell()

        async def wait_for_ever() -> None:
            while True:
                await bell.wait(3600)

        task = asyncio.create_task(wait_for_ever())
        await Turn()  # until it waits
        bell.ring()
        for _ in range(turns):
            await Turn()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=30)
        assert done == {task}
        assert task.cancelled()

    asyncio.run(play())


def test_a_wait_ends_with_its_time() -> None:
    async def play() -> None:
        await AsyncBell().wait(0.01)

    asyncio.run(play())
