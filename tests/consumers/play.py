"""A handler that tests hold back, event by event."""

from __future__ import annotations

import threading
from collections import defaultdict

from tests.support.waiting import eventually

TIMEOUT = 30  # seconds


class Play:
    """A handler that notes what runs, and lets a test hold events back by their data."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = []
        self.most = 0
        self.begun = []
        self.ended = []
        self.gates = defaultdict(threading.Event)
        self.held = set()
        self.errors = {}

    def handle(self, event):
        with self.lock:
            self.running.append(event.data)
            self.begun.append(event.data)
            self.most = max(self.most, len(self.running))
        if event.data in self.held:
            assert self.gates[event.data].wait(TIMEOUT)
        with self.lock:
            self.running.remove(event.data)
            self.ended.append(event.data)
        if event.data in self.errors:
            raise self.errors[event.data]

    def hold(self, *datas):
        self.held.update(datas)

    def release(self, *datas):
        for data in datas:
            self.gates[data].set()

    def wait_for(self, *datas):
        eventually(lambda: set(self.running) == set(datas))
