"""A TCP proxy that may fall silent: it keeps its connections open and forwards nothing."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 65536  # bytes


class SilentProxy:
    """Forwards connections to a server. While it is silent, it keeps what either end sends."""

    def __init__(self, dsn: str) -> None:
        """Listen on a port of its own; `dsn` of the proxy leads through it."""
        named = conninfo_to_dict(dsn)
        self._host, self._port = str(named["host"]), int(named["port"] or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._forwards = threading.Event()
        self._forwards.set()
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Forward nothing in the block; what came meanwhile is forwarded after it."""
        self._forwards.clear()
        try:
            yield
        finally:
            self._forwards.set()

    def passed_on(self, data: bytes) -> bytes:
        """Return what the other end gets instead of these bytes."""
        return data

    def close(self) -> None:
        """End all connections."""
        for end in self._sockets:
            with suppress(OSError):  # it was closed by its peer
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._forwards.wait()
                server = self._connect()
                self._sockets.append(server)
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pump, args=ends))
                    self._threads[-1].start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one of the ends was closed
            while data := source.recv(CHUNK):
                self._forwards.wait()
                target.sendall(self.passed_on(data))
        self._forwards.wait()
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def silent_proxy(dsn: str, kind: type[SilentProxy] = SilentProxy) -> Iterator[SilentProxy]:
    """Run a proxy before a server in the block."""
    proxy = kind(dsn)
    try:
        yield proxy
    finally:
        proxy.close()
