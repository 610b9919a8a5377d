"""``consumer set``: mode, filter and policy; ``consumer register``."""

from __future__ import annotations

import pytest

import pgqpy
from tests.cli.support import Run, RunJson, failed_with

pytestmark = pytest.mark.usefixtures("orders")

SET = ("consumer", "set", "orders", "billing")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("mode=shared", "shared"),
        ("type=order.* type=invoice extra2=eu", "takes types order.*, invoice; extra2 eu"),
        ("policy=warn after=99d size=1TB", "warn after 99 d or from 1099511627776 bytes on"),
    ],
)
def test_a_setting_is_changed_or_was_so_already(run: Run, settings: str, told: str) -> None:
    for suffix in ("\n", " already\n"):
        assert run(*SET, *settings.split()).stderr == f"billing on orders: {told}{suffix}"


def test_settings_are_changed_together_or_not_at_all(run: Run, run_json: RunJson) -> None:
    done = run(*SET, "mode=shared", "policy=detach", "after=2d", "extra1=eu")
    assert done.stderr == "billing on orders: shared; takes extra1 eu; detach after 2 d\n"
    refused = run(*SET, "mode=plain", "policy=warn", "after=99999d")
    assert failed_with(refused, 1, "100 years")
    shown = run_json("consumer", "show", "orders", "billing")
    assert (shown["mode"], shown["stall_policy"]) == ("shared", "detach")
    assert shown["filter"] == {"extra1": ["eu"]}
    assert run(*SET, "type=*").exit_code == 0
    assert run_json("consumer", "show", "orders", "billing")["filter"] is None


@pytest.mark.parametrize(
    ("settings", "exit_code", "told"),
    [
        ("mode", 2, "write name=value"),
        ("mode=lanes", 2, "mode is one of plain, shared"),
        ("colour=red", 2, "there is no setting 'colour': mode, key, per_key"),
        ("mode=plain mode=shared", 2, "mode is set twice"),
        ("policy=detach", 2, "needs after=… or size=…"),
        ("after=2d", 2, "after needs policy="),
        ("policy=warn size=much", 1, 'invalid size: "much"'),
        ("policy=warn after=soon", 2, "write 90s, 30min, 2h, 7d"),
        ("attached=no", 2, "attached is one of yes, earliest"),
    ],
)
def test_what_is_wrong_is_told(run: Run, settings: str, exit_code: int, told: str) -> None:
    assert failed_with(run(*SET, *settings.split()), exit_code, told)
    assert failed_with(run("consumer", "set", "orders", "nobody", "mode=plain"), 1, "nobody")


def test_register_keeps_a_position_and_changes_the_filter(run: Run, run_json: RunJson) -> None:
    register = ("consumer", "register", "orders")
    new = run(*register, "audit", "--type", "order.*", "--type", "invoice", "--extra", "extra1=eu")
    assert new.stderr == "registered audit on orders: takes types order.*, invoice; extra1 eu\n"
    again = run(*register, "audit", "--extra", "extra1=us")
    assert again.stderr == "registered audit on orders already: takes extra1 us\n"
    assert run_json("consumer", "show", "orders", "audit")["filter"] == {"extra1": ["us"]}


@pytest.mark.parametrize(
    ("option", "value", "exit_code", "told"),
    [
        ("--type", "a*b", 1, "may only end a type"),
        ("--extra", "extra5=a", 2, "there are extra1"),
        ("--extra", "extra1", 2, "--extra extra1=eu"),
    ],
)
def test_register_with_a_filter_that_makes_no_sense_registers_nothing(
    run: Run, client: pgqpy.Client, option: str, value: str, exit_code: int, told: str
) -> None:
    result = run("consumer", "register", "orders", "audit", option, value)
    assert failed_with(result, exit_code, told)
    assert not client.get_consumer_info("orders", "audit")
