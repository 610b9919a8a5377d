"""Debian's redis-server, to kill and to start again."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import redis

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

REDIS = shutil.which("redis-server")
WHY_SKIPPED = "Debian's package redis-server is not installed"


class RedisServer:
    """A server on a socket in a folder, that keeps what it has answered to."""

    def __init__(self, folder: Path) -> None:
        """Start it."""
        self._folder = folder
        self.url = f"unix://{folder}/redis.sock"
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self.start()

    def start(self) -> None:
        """Start it, again after `kill`."""
        socket = self._folder / "redis.sock"
        options = ("--port", "0", "--unixsocket", socket, "--dir", self._folder, "--save", "")
        durable = ("--appendonly", "yes", "--appendfsync", "always")
        command = (REDIS or "redis-server", *options, *durable)
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually(self._answers)

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone; safe where it is gone already."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill it for good."""
        self.client.close()
        self.kill()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.exceptions.ConnectionError:  # not there yet, or reads its file
            return False
