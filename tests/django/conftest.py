"""Django in the tests' own process, with the app of examples/django_shop."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from tests.support.databases import QUEUE_IS_NEW, new_database
from tests.support.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = ROOT / "examples" / "django_shop"
POSTGRES = {"ENGINE": "django.db.backends.postgresql", "NAME": "set by a fixture"}

if not settings.configured:
    sys.path.append(str(PROJECT))
    settings.configure(
        INSTALLED_APPS=["pgqpy.django", "store"],
        DATABASES={
            "default": dict(POSTGRES),
            "other": dict(POSTGRES),  # the same database
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        ROOT_URLCONF="urls",
        USE_TZ=True,
        TIME_ZONE="Asia/Tokyo",
        SECRET_KEY="for tests",
        ALLOWED_HOSTS=["*"],
    )
    django.setup()

from django.core.management import call_command  # noqa: E402  # after setup()
from django.db import connections  # noqa: E402  # as above


def point_to(dsn: str) -> None:
    """Let both aliases mean this database."""
    named = conninfo_to_dict(dsn)
    place: dict[str, Any] = {
        "NAME": named["dbname"],
        "USER": named.get("user", ""),
        "PASSWORD": named.get("password", ""),
        "HOST": named.get("host", ""),
        "PORT": str(named.get("port", "")),
    }
    for alias in ("default", "other"):
        connections[alias].close()
        connections[alias].settings_dict.update(place)


@pytest.fixture(scope="session")
def store_template(server: Any, template: str) -> Iterator[str]:
    """The name of a database with the tables of the store, its queue and its consumer."""
    with new_database(server, template) as name:
        point_to(server.dsn(name))
        call_command("migrate", verbosity=0)
        connections.close_all()
        yield name


@pytest.fixture
def dsn(server: Any, store_template: str) -> Iterator[str]:
    """A fresh database of the store, which both aliases of Django mean."""
    with new_database(server, store_template) as name:
        point_to(server.dsn(name))
        with connections["default"].cursor() as cursor:
            cursor.execute(QUEUE_IS_NEW)
        yield server.dsn(name)
        connections.close_all()


@pytest.fixture
def bare_dsn(empty_dsn: str) -> Iterator[str]:
    """A database without the schema, which both aliases of Django mean."""
    point_to(empty_dsn)
    yield empty_dsn
    connections.close_all()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example project, to be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=ignored))
