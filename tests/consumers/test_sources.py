"""What other threads see of a consumer over several queues."""

from __future__ import annotations

import threading
from contextlib import suppress
from unittest.mock import AsyncMock, Mock

from pgqpy.consumers._async.sources import AsyncSources
from pgqpy.consumers._sync.sources import Sources
from pgqpy.consumers.fixed_settings import runs
from tests.consumers.harness import CONSUMER, QUEUE, Queue
from tests.consumers.several import URGENT
from tests.support.waiting import eventually


def test_a_thread_that_asks_while_run_begins_gets_the_queues_that_run(queue, make, monkeypatch):
    kind = AsyncSources if make.asynchronous else Sources
    make_one, entered = kind._make, threading.Event()

    def both_run(sources):
        return [runs(each) for each in sources._each] == [True, True]

    def late_for_the_asker(sources, name):
        if threading.current_thread() is asker and not entered.is_set():
            entered.set()
            with suppress(AssertionError):  # run() waits for it, or it would come when all run
                eventually(lambda: both_run(sources), 0.3)
        return make_one(sources, name)

    monkeypatch.setattr(kind, "_make", late_for_the_asker)
    Queue(queue.client, URGENT)
    handler = AsyncMock() if make.asynchronous else Mock()
    members = {"queues": [URGENT, QUEUE], "name": CONSUMER, "process_event": handler}
    consumer = type("Several", (make.base,), members)(make.dsn)
    asker = threading.Thread(target=consumer.counts)
    asker.start()
    assert entered.wait(30)
    running = make.run(consumer)
    asker.join()
    eventually(lambda: consumer.outage() is None, 10)
    running.stop()
