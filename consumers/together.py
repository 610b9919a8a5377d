"""Several runs at the same time, in threads or asyncio tasks, until all have ended."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

K = TypeVar("K")
LOOK = 0.5  # seconds


def run_together(runs: Mapping[K, Callable[[], None]]) -> dict[K, BaseException]:
    """Run all of them, each in a thread; return what they raised, the first error first.

    The threads are daemons: a second signal, which must not wait for them, ends the process.
    """
    errors: dict[K, BaseException] = {}

    def one(key: K, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001  # the caller raises it in its own thread
            errors[key] = error

    threads = [
        threading.Thread(target=one, args=item, name=f"pgqpy-{item[0]}", daemon=True)
        for item in runs.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # The kernel may give a signal that came while the process was stopped to any thread. Python
        # calls its handler in this one, which a wait without an end would keep from it.
        while thread.is_alive():
            thread.join(LOOK)
    return errors


async def run_together_async(
    runs: Mapping[K, Callable[[], Awaitable[None]]],
) -> dict[K, BaseException]:
    """Run all of them, each in a task; return what they raised, the first error first.

    If the caller is cancelled, they are too, and it waits for their end.
    """
    errors: dict[K, BaseException] = {}

    async def one(key: K, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except BaseException as error:  # noqa: BLE001  # SystemExit would end the event loop
            errors[key] = error

    tasks = [asyncio.create_task(one(*item)) for item in runs.items()]
    await asyncio.gather(*tasks)
    return errors
