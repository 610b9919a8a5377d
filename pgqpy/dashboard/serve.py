"""The dashboard as a server of its own: its checks before it listens, and its loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn

from pgqpy.dashboard.access import (
    HeaderAccess,
    LoopbackAccess,
    PasswordAccess,
    is_loopback,
    parse_entries,
    parse_networks,
)
from pgqpy.dashboard.app import Dashboard
from pgqpy.errors import InvalidArgument
from pgqpy.ticker.web import address, listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pgqpy.dashboard.access import Access

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")  # noqa: S104  # compared, not listened on
GRACE = 3  # seconds for requests that are under way at the end


class Settings(NamedTuple):
    """The options of ``pgqpy dashboard``, by their names there."""

    host: str = "127.0.0.1"
    port: int = 9432
    host_names: tuple[str, ...] = ()
    https: bool = False
    password_file: str | None = None
    user_header: str | None = None
    proxies: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    read_only: bool = False
    hide_payloads: bool = False


def choose_access(settings: Settings) -> Access:
    """Return the access that the settings name. InvalidArgument: they are open, or contradict."""
    if settings.password_file is not None and settings.user_header is not None:
        raise InvalidArgument("name --password-file or --user-header, not both")
    if (settings.user_header is None) != (not settings.proxies):
        raise InvalidArgument("--user-header and --proxy belong together: only a proxy's counts")
    if settings.operators and settings.user_header is None:
        raise InvalidArgument("--operator belongs to --user-header; a password file has roles")
    if settings.password_file is not None:
        return PasswordAccess(parse_entries(_read(settings.password_file)))
    if settings.user_header is not None:
        networks = parse_networks(settings.proxies)
        return HeaderAccess(settings.user_header, networks, frozenset(settings.operators))
    if not is_loopback(settings.host):
        raise InvalidArgument(
            f"other machines may reach {settings.host or 'every address'}: name --password-file, "
            "or --user-header and --proxy, or listen on 127.0.0.1"
        )
    return LoopbackAccess()


def choose_hosts(settings: Settings) -> tuple[str, ...]:
    """Return the names by which browsers may reach the dashboard."""
    names = tuple(name.lower() for name in settings.host_names)
    if is_loopback(settings.host):
        return (*LOOPBACK, settings.host.lower(), *names)
    if settings.host in ANY and not names:
        raise InvalidArgument("name the host that browsers ask for: --host-name queues.example.org")
    return names if settings.host in ANY else (settings.host.lower(), *names)


def serve(dsn: str, settings: Settings, say: Callable[[str], None]) -> None:
    """Serve the dashboard until SIGTERM or SIGINT. `say` gets its address, once it listens.

    Raises InvalidArgument, ConnectionFailed if the DSN is not valid, CannotListen.
    """
    access, hosts = choose_access(settings), choose_hosts(settings)
    dashboard = Dashboard(
        dsn,
        access,
        hosts,
        https=settings.https,
        read_only=settings.read_only,
        hide_payloads=settings.hide_payloads,
    )
    listening = listen(settings.host, settings.port)
    config = uvicorn.Config(
        dashboard.app,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the address of the proxy has to stay: its header counts
        timeout_graceful_shutdown=GRACE,
    )
    server = Server(config, dashboard)
    # The signals come first: a program that reads the address may end the dashboard at once.
    with listening, server.signals():
        say(f"http://{address(*listening.getsockname()[:2])}/")
        asyncio.run(server.serve([listening]))


class Server(uvicorn.Server):
    """A server that ends the streams first: they would hold it up for ever."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        """Serve a dashboard."""
        super().__init__(config)
        self._dashboard = dashboard
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to `signals`: uvicorn's own way sends each once more at the end."""
        self._loop = asyncio.get_running_loop()
        yield

    @contextmanager
    def signals(self) -> Iterator[None]:
        """End without an error at a signal, also one that comes before the server has begun."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal; a second one ends it at once."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._dashboard.feed.stop_soon(self._loop)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as exc:
        why: Any = exc.strerror if isinstance(exc, OSError) else "it is no UTF-8 text"
        raise InvalidArgument(f"cannot read the password file {path}: {why}") from exc
