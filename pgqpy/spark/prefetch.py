"""Fetch ahead in a thread: the server's next batch comes while Spark takes the last one."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")
DEPTH = 4  # batches in hand; more only takes memory
POLL_INTERVAL = 0.1  # seconds, in which the thread notices that nobody reads any more


class _End:
    """What the thread puts last: how it went."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetched(
    items: Iterator[T], cancel: Callable[[], None], depth: int = DEPTH
) -> Generator[T, None, None]:
    """Yield the items of an iterator that runs in a thread of its own.

    Args:
        items: read in the thread only, to its end or its error, which is raised here.
        cancel: called if the reader stops early; ends a wait inside `items`.
        depth: how many to hold.
    """
    box: queue.Queue[T | _End] = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(items, box, stop), daemon=True)
    thread.start()
    ended = False
    try:
        while not isinstance(item := box.get(), _End):
            yield item
        ended = True
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        try:
            if not ended:
                cancel()
        finally:
            thread.join()


def _run(items: Iterator[T], box: queue.Queue[T | _End], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            if not _put(box, item, stop):
                return
    except BaseException as exc:  # noqa: BLE001  # raised where the items are read
        error = exc
    _put(box, _End(error), stop)


def _put(box: queue.Queue[T | _End], item: T | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            box.put(item, timeout=POLL_INTERVAL)
        except queue.Full:
            continue
        return True
    return False
