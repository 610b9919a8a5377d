"""The dashboard as a part of an application of Starlette or FastAPI."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pgqpy.dashboard.access import FunctionAccess
from pgqpy.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from pgqpy.dashboard.access import Decide

NEEDED = ("starlette", "jinja2", "uvicorn", "itsdangerous")


def check_packages() -> None:
    """Raise MissingExtra unless the packages of the extra `dashboard` are installed."""
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtra(f"{package} is needed: pip install 'pgqpy[dashboard]'")


def dashboard(
    dsn: str,
    *,
    access: Decide,
    https: bool = False,
    read_only: bool = False,
    hide_payloads: bool = False,
) -> Starlette:
    """Return the dashboard of a database as an application: `app.mount("/queues", …)`.

    `access` gets each request, and returns "viewer", "operator" or a `Login` with the name of the
    user; None: no access. It may be a coroutine function. With `https`, browsers send the
    dashboard's cookie by HTTPS only; with `read_only` nobody changes anything; `hide_payloads`
    shows no data of events, no reasons and no tracebacks.

    Raises MissingExtra, ConnectionFailed if the DSN is not valid.
    """
    check_packages()
    from pgqpy.dashboard.app import Dashboard  # noqa: PLC0415  # needs the extra

    hosts = None  # the application's own matter
    more = {"https": https, "read_only": read_only, "hide_payloads": hide_payloads}
    return Dashboard(dsn, FunctionAccess(access), hosts, **more).app
