"""A consumer that runs beside the program's own work: in a task, or in a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from pgqpy.consumers.retry import seconds
from pgqpy.consumers.settings import BaseConsumer
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from typing import Any

    Failed = Callable[[BaseException], object] | None
    Started = Callable[[], object]

logger = logging.getLogger("pgqpy.consumers")

C = TypeVar("C", bound=BaseConsumer)


class _Run:
    """The run of a consumer, how it began and how it ended."""

    def __init__(self, consumer: BaseConsumer, on_failure: Failed, begun: Started) -> None:
        self._consumer = consumer
        self._on_failure = on_failure
        self._begun = begun  # called when it has started, or has ended
        self._started = False
        self.goes_on = True
        self.error: BaseException | None = None

    def started(self) -> None:
        """Note that it is registered, and works or waits as a standby."""
        self._started = True
        self._begun()

    def failed(self, error: BaseException) -> None:
        """Tell at once why it ended. If it never started, only the block raises that."""
        self.error = error
        if not self._started:
            return
        place = self._consumer.name, self._consumer.queue
        logger.error("consumer %s of queue %s ended: %s", *place, describe(error))
        if self._on_failure is not None:
            self._on_failure(error)

    def ended(self) -> None:
        """Note that it is over."""
        self.goes_on = False
        self._begun()

    def raise_error(self) -> None:
        """Raise what ended it."""
        if self.error is not None:
            raise self.error

    def tell_late(self, what: str) -> None:
        """Log what becomes of a handler that has not ended in time."""
        text = "consumer %s of queue %s: its handler %s"
        logger.warning(text, self._consumer.name, self._consumer.queue, what)


@contextmanager
def beside(consumer: C, run: Callable[[Started], None], on_failure: Failed) -> Iterator[C]:
    """Run the consumer in a thread for the block. `run` calls its argument when it has started."""
    begun = threading.Event()
    found = _Run(consumer, on_failure, begun.set)

    def work() -> None:
        try:
            run(found.started)
        except BaseException as error:  # noqa: BLE001  # the block raises it
            found.failed(error)
        finally:
            found.ended()

    thread = threading.Thread(target=work, name=f"pgqpy {consumer.name}", daemon=True)
    try:
        thread.start()
        begun.wait()
        found.raise_error()
        yield consumer
    finally:
        if found.goes_on:  # else another run of the same object may go on
            consumer.stop()
        thread.join(seconds(consumer.stop_timeout))
        if thread.is_alive():
            found.tell_late("goes on after stop_timeout, and is left alone")
    found.raise_error()


@asynccontextmanager
async def beside_async(
    consumer: C, run: Callable[[Started], Coroutine[Any, Any, None]], on_failure: Failed
) -> AsyncIterator[C]:
    """Run the consumer in a task for the block. `run` calls its argument when it has started."""
    begun = asyncio.Event()
    found = _Run(consumer, on_failure, begun.set)

    async def work() -> None:
        try:
            await run(found.started)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # the block raises it
            found.failed(error)
        finally:
            found.ended()

    task = asyncio.create_task(work(), name=f"pgqpy {consumer.name}")
    try:
        await begun.wait()
        found.raise_error()
        yield consumer
    finally:
        if found.goes_on:
            consumer.stop()
        try:
            await asyncio.wait([task], timeout=seconds(consumer.stop_timeout))
        finally:
            if not task.done():
                found.tell_late("is cancelled after stop_timeout")
                task.cancel()
                await asyncio.wait([task])
    found.raise_error()
