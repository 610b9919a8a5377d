"""Messages to the service manager, by sd_notify(3)."""

from __future__ import annotations

import signal
import socket

import pgqpy
from pgqpy import install


def test_service_manager_gets_ready_watchdog_and_stopping(start_process, dsn, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(30)
        daemon = start_process(dsn, env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"})
        ready = until(manager, b"READY=1")[-1]
        assert ready.startswith(b"READY=1\nSTATUS=")
        assert ready.endswith(b": active")
        until(manager, b"WATCHDOG=1")
        daemon.process.signal(signal.SIGTERM)
        until(manager, b"STOPPING=1")
    assert daemon.process.wait() == 0


def until(manager, wanted):
    """Return what the service manager hears up to what starts with `wanted`."""
    heard: list[bytes] = []
    while not heard or not heard[-1].startswith(wanted):
        heard.append(manager.recv(2000))
    return heard


def test_service_manager_gets_ready_after_a_database_has_answered(
    start_process, own_server, tmp_path
):
    with pgqpy.connect(own_server.dsn()) as client:
        install.install(client.connection)
    own_server.stop()
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(30)
        daemon = start_process(own_server.dsn(), env={"NOTIFY_SOCKET": path})
        daemon.wait_for("reconnecting")
        assert manager.recv(2000).startswith(b"STATUS=")
        own_server.start()
        before = until(manager, b"READY=1")[:-1]
        assert all(each.startswith(b"STATUS=") for each in before)
        daemon.wait_for("active")
