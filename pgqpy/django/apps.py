"""The app `pgqpy.django`, and its system check of schema, queues and registrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from django.apps import AppConfig
from django.core.checks import Error, Tags, Warning, register  # noqa: A004  # Django's names
from django.db import Error as DatabaseError
from django.db import connections
from django.utils.module_loading import autodiscover_modules

from pgqpy.django.consumer import Consumer
from pgqpy.django.database import alias_of, client_of
from pgqpy.errors import PgqError
from pgqpy.install import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class PgqpyConfig(AppConfig):
    """The app. Its label is pgqpy, as in the dependencies of migrations."""

    name = "pgqpy.django"
    label = "pgqpy"

    def ready(self) -> None:
        """Register the checks."""
        register(check_setting)
        register(check_database, Tags.database)


def check_setting(**_: Any) -> list[Any]:
    """Find a wrong alias in settings.PGQPY, without the database."""
    try:
        alias_of()
    except PgqError as error:
        return [Error(str(error), id="pgqpy.E001")]
    return []


def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[Any]:
    """Find a missing schema, queue or registration, if the database can be reached.

    They are warnings: migrate runs this check before it installs the schema.
    """
    try:
        return list(_missing(alias_of())) if alias_of() in (databases or ()) else []
    except (PgqError, DatabaseError, psycopg.Error):  # a query will tell it
        return []


def _missing(alias: str) -> Iterator[Any]:
    client = client_of(alias)
    problem = status(connections[alias].connection).problem
    if problem is not None:
        yield Warning(problem[0], hint="manage.py migrate pgqpy", id="pgqpy.W001")
        return
    queues = {info.queue_name for info in client.get_queue_info()}
    registered = {(info.queue_name, info.consumer_name) for info in client.get_consumer_info()}
    for kind in _consumers(alias):
        for queue in kind.queues or [kind.queue]:
            if queue not in queues:
                hint = f'a migration with InstallQueue("{queue}")'
                yield Warning(f"no queue {queue!r}", hint=hint, obj=kind, id="pgqpy.W002")
            elif (queue, kind.name) not in registered:
                hint = "name it in a migration's InstallQueue, or run it"
                text = f"consumer {kind.name!r} is not registered on queue {queue!r}"
                yield Warning(text, hint=hint, obj=kind, id="pgqpy.W003")


def _consumers(alias: str) -> list[type[Consumer]]:
    """Return the classes in the modules `consumers` of all apps, and what else is imported."""
    autodiscover_modules("consumers")
    found, left = [], [Consumer]
    while left:
        kinds = left.pop().__subclasses__()
        left += kinds
        found += [kind for kind in kinds if kind.name and kind.using in (None, alias)]
    return found
