"""The check of the packages that the dashboard needs."""

from __future__ import annotations

from importlib.util import find_spec

from pgqpy.errors import MissingExtra

NEEDED = ("starlette", "jinja2", "uvicorn", "itsdangerous")


def check_packages() -> None:
    """Raise MissingExtra unless the packages of the extra `dashboard` are installed."""
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtra(f"{package} is needed: pip install 'pgqpy[dashboard]'")
