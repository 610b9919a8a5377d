"""``pgqpy consumer set``: mode, lanes, filter, policy and attachment of a consumer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from pgqpy import calls
from pgqpy.calls import filters
from pgqpy.cli import complete, queries
from pgqpy.cli.consumer_details import policy_as_text
from pgqpy.cli.options import Target, connected, split_settings, to_timedelta
from pgqpy.cli.output import say

if TYPE_CHECKING:
    from pgqpy import Client

    Given = dict[str, list[str]]

UNITS = {"": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SIZE = re.compile(r"(\d{1,6}(?:\.\d+)?|\d+) ?(|kB|MB|GB|TB)", re.ASCII)
LARGEST = 1 << 62  # bytes


def parse_size(value: str | None) -> int | None:
    """Return a number of bytes."""
    if value is None:
        return None
    found = SIZE.fullmatch(value.strip())
    size = float(found[1]) * UNITS[found[2]] if found else LARGEST
    if size < LARGEST:
        return int(size)
    raise click.UsageError(f"{value!r} is no size: write 500MB, 20GB, 1.5TB")


@click.command("set")
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument(
    "settings",
    nargs=-1,
    required=True,
    metavar="NAME=VALUE...",
    shell_complete=complete.registration,
)
@connected
def set_(target: Target, queue: str, name: str, settings: tuple[str, ...]) -> None:
    """Change what is stored of a consumer, all in one transaction.

    \b
    mode=plain|shared    one process runs it, or several workers
    lanes=8 key=extra1   workers share it, in order of the key
    type=… extra1=…      which events it takes; repeat for more, type=* takes all
    policy=warn|detach   what happens when rotation waits for it
    after=2d size=50GB   the limits of the policy: what comes first counts
    attached=yes         a detached consumer goes on where it was; attached=earliest:
                         from the earliest tick left, if events are gone

    The first run of a consumer decides its mode by itself. Another mode needs that no process runs
    it and no batch is open. One with several lanes is changed to lanes=1 first, and run until that
    is done. Lanes may be changed while it runs: the present lanes end at a tick, new ones begin.

    A detached consumer gets no events, and events that it has not had are removed; its retried,
    dead and parked events stay. Only time in which a ticker ran counts for policy=detach.

    Example: pgqpy consumer set orders billing lanes=8 key=extra1
    """  # noqa: D301  # click's mark of lines that stay as they are
    given: Given = {}
    for setting, value in split_settings(settings, "mode=shared"):
        given.setdefault(setting, []).append(value)
    _check(given)
    with target.client() as client:
        queries.consumer_info(client, queue, name)
        with client.transaction():
            done = [
                change(client, queue, name, given)
                for settings_of_it, change in CHANGES
                if given.keys() & set(settings_of_it)
            ]
    say(f"{name} on {queue}: {'; '.join(done)}")


def _check(given: Given) -> None:
    """Refuse unknown settings, those that are given twice, and those that need another one."""
    for setting, values in given.items():
        if setting not in complete.REGISTRATION:
            known = ", ".join(complete.REGISTRATION)
            raise click.UsageError(f"there is no setting {setting!r}: {known}")
        if len(values) > 1 and setting not in FILTERS:
            raise click.UsageError(f"{setting} is set twice")
        for needed in NEEDS.get(setting, ()):
            if needed not in given:
                raise click.UsageError(f"{setting} needs {needed}=…")
        _check_choice(setting, values[0])
    if given.get("policy") == ["detach"] and not given.keys() & {"after", "size"}:
        raise click.UsageError("policy=detach needs after=… or size=…")


def _check_choice(setting: str, value: str) -> None:
    choices = CHOICES.get(setting)
    if choices is not None and value not in choices:
        raise click.UsageError(f"{setting} is one of {', '.join(choices)}, not {value!r}")


def _set_mode(client: Client, queue: str, name: str, given: Given) -> str:
    (mode,) = given["mode"]
    changed = client.call(calls.share.set_consumer_mode(queue, name, mode))  # type: ignore[arg-type]  # as CHOICES
    return mode if changed else f"{mode} already"


def _set_lanes(client: Client, queue: str, name: str, given: Given) -> str:
    (lanes,), (key,) = given["lanes"], given["key"]
    number = click.INT(lanes)
    changed = client.call(calls.lanes.set_lanes(queue, name, number, key))
    return f"{number} lane(s) by {key}{'' if changed else ' already'}"


def set_filter(client: Client, queue: str, name: str, given: Given) -> str:
    """Change the filter, if `given` has conditions."""
    types = given.get("type")
    extras = {each: given[each] for each in FILTERS[1:] if each in given}
    changed = client.set_consumer_filter(queue, name, types=types, extras=extras)
    what = f"takes {filters.describe_filter(types, extras)}"
    return what if changed else f"{what} already"


def _set_policy(client: Client, queue: str, name: str, given: Given) -> str:
    (policy,) = given["policy"]
    after = to_timedelta(*given.get("after", [None]))
    size = parse_size(*given.get("size", [None]))
    call = calls.admin.set_stall_policy(queue, name, policy, after=after, size=size)  # type: ignore[arg-type]  # as CHOICES
    changed = client.call(call)
    return f"{policy_as_text(policy, after, size)}{'' if changed else ' already'}"


def _attach(client: Client, queue: str, name: str, given: Given) -> str:
    earliest = given["attached"] == ["earliest"]
    call = calls.admin.reattach_consumer(queue, name, from_earliest=earliest)
    if not client.call(call):
        return "attached already"
    pending = queries.consumer_info(client, queue, name).pending_events
    return f"attached again: about {pending} event(s) wait"


FILTERS = ("type", "extra1", "extra2", "extra3", "extra4")
NEEDS = {"lanes": ("key",), "key": ("lanes",), "after": ("policy",), "size": ("policy",)}
CHOICES = {
    "mode": ("plain", "shared"),
    "key": FILTERS,
    "policy": ("warn", "detach"),
    "attached": ("yes", "earliest"),
}
CHANGES = (  # in this order; each with the settings that it takes
    (("mode",), _set_mode),
    (("lanes", "key"), _set_lanes),
    (FILTERS, set_filter),
    (("policy", "after", "size"), _set_policy),
    (("attached",), _attach),
)
