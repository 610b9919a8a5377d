"""A project of Django: migrations, checks, manage.py pgqpy, and kills."""

from __future__ import annotations

import itertools
import os
import re
import signal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.db.migrations.state import ProjectState
from django.test import override_settings
from psycopg.conninfo import conninfo_to_dict
from store.models import Order, Total

import pgqpy
from pgqpy.django import InstallQueue, emit
from pgqpy.install import status
from pgqpy.manifest import shipped_version
from tests.support.tree import files
from tests.support.waiting import eventually

PATH = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []  # another release of Django


HANDLING = """
    select from pg_stat_activity where application_name = 'pgqpy consumer totals'
       and datname = current_database() and query ~ 'store_total' """


def environment(dsn: str) -> dict[str, str]:
    named = conninfo_to_dict(dsn)
    return {
        f"PG{'DATABASE' if key == 'dbname' else key.upper()}": f"{value}"
        for key, value in named.items()
    }


@pytest.fixture
def manage(dsn: str, project: Path, spawn: Any) -> Any:
    """Start manage.py of the copied project in the test's database."""
    # PGQPY_DSN is the database of other programs: it does not matter here.
    env = {
        **environment(dsn),
        "PGQPY_DSN": "dbname=nowhere",
        "PYTHONPATH": os.pathsep.join([str(project), *PATH]),
    }
    return lambda *words: spawn(str(project / "manage.py"), *words, env=env, fresh=True)


def told(databases: list[str] | None = None) -> set[str]:
    return {str(message.id) for message in run_checks(databases=databases)}


def apply(operation: InstallQueue, *, backwards: bool = False) -> None:
    state = ProjectState()
    with connection.schema_editor() as editor:
        do = operation.database_backwards if backwards else operation.database_forwards
        do("store", editor, state, state)


def schema_operation(alias: str, *, backwards: bool = False) -> None:
    migration = import_module("pgqpy.django.migrations.0001_schema_1").Migration
    (operation,) = migration.operations
    with connections[alias].schema_editor(atomic=migration.atomic) as editor:
        do = operation.database_backwards if backwards else operation.database_forwards
        do("pgqpy", editor, None, None)


def test_migrate_installs_schema_and_queue_and_takes_them_away(bare_dsn: str) -> None:
    assert "pgqpy.W001" in told(["default"])
    call_command("migrate", verbosity=0)
    assert told(["default"]) == set()
    schema_operation("default")  # an upgrade is another installation
    client = pgqpy.Client(connection.connection)
    client.insert_event("orders", "placed", None)
    with pytest.raises(CommandError, match=r"queue\(s\) and their events would be lost"):
        schema_operation("default", backwards=True)
    client.register_consumer("orders", "billing")
    with pytest.raises(CommandError, match="consumer"):
        call_command("migrate", "store", "zero", verbosity=0)
    client.unregister_consumer("orders", "billing")
    call_command("migrate", "pgqpy", "zero", verbosity=0)
    assert status(connection.connection).state == "missing"


def test_the_schema_is_installed_in_its_own_database_only(bare_dsn: str) -> None:
    with override_settings(PGQPY={"database": "other"}):
        for alias, state in (("default", "missing"), ("other", "current")):
            schema_operation(alias)
            connections[alias].ensure_connection()
            assert status(connections[alias].connection).state == state


def test_each_version_of_the_schema_has_a_migration() -> None:
    names = [name.stem for name in files("pgqpy/django/migrations/0*.py")]
    assert names == [f"{n:04}_schema_{n}" for n in range(1, shipped_version() + 1)]


@pytest.mark.usefixtures("dsn")
def test_a_queue_is_made_in_the_transaction_of_its_migration() -> None:
    operation = InstallQueue("mails", consumers=["send"])
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        apply(operation)
        raise ZeroDivisionError
    assert not pgqpy.Client(connection.connection).get_queue_info("mails")
    apply(operation)
    (consumer,) = pgqpy.Client(connection.connection).get_consumer_info("mails")
    assert consumer.consumer_name == "send"
    apply(operation, backwards=True)
    assert not pgqpy.Client(connection.connection).get_queue_info("mails")


def test_a_migration_without_the_schema_says_what_it_depends_on(bare_dsn: str) -> None:
    with pytest.raises(CommandError, match=r'add \("pgqpy", "0001_schema_1"\) to the dependencies'):
        apply(InstallQueue("mails"))


@pytest.mark.usefixtures("dsn")
def test_checks_find_a_missing_registration_and_queue(client: pgqpy.Client) -> None:
    assert told(["default"]) == set()
    client.unregister_consumer("orders", "totals")
    assert told(["default"]) == {"pgqpy.W003"}
    client.drop_queue("orders")
    assert told(["default"]) == {"pgqpy.W002"}
    assert told() == told(["other"]) == set()


def test_checks_pass_while_the_database_is_away(dsn: str) -> None:
    connection.close()
    place = connection.settings_dict
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(place, "NAME", "nowhere")
        assert told(["default"]) == set()
        with override_settings(PGQPY={"database": "lite"}):
            assert told() == {"pgqpy.E001"}


def test_a_killed_consumer_counts_each_order_once(
    dsn: str, manage: Any, client: pgqpy.Client
) -> None:
    customers = 400
    for number in range(customers):
        order = Order.objects.create(customer=f"customer {number % 7}", total=1)
        emit("orders", "placed", {"order": order, "total": "1.00"}, key=order.customer)
        if number % 50 == 0:
            client.tick_queue("orders")
    client.tick_queue("orders")

    def counted() -> int:
        return sum(total.orders for total in Total.objects.all())

    def handles_more_than(before: int) -> bool:
        return counted() > before and bool(client.connection.execute(HANDLING).fetchall())

    for _ in range(3):
        process = manage("pgqpy", "run", "store.consumers:Totals")
        eventually(partial(handles_more_than, counted()))
        process.kill()
    assert counted() < customers
    process = manage("pgqpy", "run", "store.consumers:Totals")
    eventually(lambda: counted() >= customers)
    assert process.terminate() == 0
    found = {total.customer: (total.orders, total.spent) for total in Total.objects.all()}
    wanted = {f"customer {n}": len(range(n, customers, 7)) for n in range(7)}
    assert found == {customer: (count, count) for customer, count in wanted.items()}


def test_run_ticker_and_doctor_use_the_database_of_django(dsn: str, manage: Any) -> None:
    ticker = manage("pgqpy", "ticker", "--http-port", "0")
    ticker.wait_for_output("active")
    process = manage("pgqpy", "run", "store.consumers:Totals", "--set", "part_size=1")
    process.wait_for_output("runs")
    emit("orders", "placed", {"total": "2.50"}, key="ann")
    eventually(lambda: Total.objects.filter(customer="ann", spent="2.50").exists())
    doctor = manage("pgqpy", "doctor")
    assert doctor.wait() == 0, doctor.output()
    assert process.terminate() == 0
    assert "stops" in process.output()
    assert ticker.terminate() == 0


def test_run_reloads_after_a_change_of_the_code(dsn: str, project: Path, manage: Any) -> None:
    process = manage("pgqpy", "run", "--reload", "store.consumers:Totals")
    process.wait_for_output("runs")
    module = project / "store" / "consumers.py"
    changed = module.read_text().replace('F("orders") + 1', 'F("orders") + 100')
    module.write_text(changed)
    later = itertools.count(int(module.stat().st_mtime) + 60)

    def reloaded() -> bool:
        time = next(later)  # a change before the reloader's first look is none
        os.utime(module, (time, time))
        return process.output().count("runs") > 1

    eventually(reloaded)
    client = pgqpy.Client(connection.connection)
    emit("orders", "placed", {"total": "1"}, key="ann")
    client.tick_queue("orders")
    eventually(lambda: Total.objects.filter(customer="ann", orders=100).exists())
    process.signal(signal.SIGINT)
    assert process.wait() == 0


MISTAKES = {
    "run store.consumers:Total": "error: .* is no Consumer",
    "run store.consumers:Nothing": "store.consumers has no class Nothing; it has Totals",
    "run store.consumers:Totals --workers 2": "CommandError: start manage.py pgqpy",
    "walk": "invalid choice: 'walk'",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words: str, manage: Any) -> None:
    process = manage("pgqpy", *words.split())
    assert process.wait() != 0
    assert re.search(MISTAKES[words], process.output())
    assert "Traceback" not in process.output()


def test_the_tests_of_the_example_pass(dsn: str, manage: Any) -> None:
    process = manage("test", "store")
    assert process.wait(60) == 0, process.output()
    assert "Ran 1 test" in process.output()


def test_pgqpy_consumer_run_tells_of_manage_py(project: Path, spawn: Any) -> None:
    env = {"PYTHONPATH": str(project), "DJANGO_SETTINGS_MODULE": "settings"}
    process = spawn("-m", "pgqpy", "consumer", "run", "store.consumers:Totals", env=env)
    assert process.wait() == 1
    (line,) = process.output().splitlines()
    assert line.endswith("in a Django project, run it with manage.py pgqpy run store.consumers:…")
