"""docs/coming-from.md: its names exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pgqpy
from pgqpy import Message, calls, consumers
from pgqpy.consumers import Consumer, OpenBatch
from pgqpy.consumers.settings import BaseConsumer
from pgqpy.records import Event
from tests.docs.markdown import codes, text

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "docs/coming-from.md"
OWNERS = {
    "client": pgqpy.Client,
    "message": Message,
    "event": Event,
    "batch": OpenBatch,
    "Consumer": type("Whole", (Consumer,), {"process_event": None, "process_batch": None}),
}
IN_MESSAGES = {"message.attempt"}  # attributes of an instance


def here() -> Iterator[str]:
    """Yield every name in the column `here` of the page's tables."""
    for line in text(PAGE).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3:
            yield from codes(cells[1])


def test_every_name_of_ours_exists(connection: Any) -> None:
    missing = [name for name in set(here()) if not exists(connection, name)]
    assert missing == [], missing


def exists(connection: Any, name: str) -> bool:
    owner, _, attribute = name.partition(".")
    if name.startswith("pgqpy "):
        return True  # test_names.py
    if owner == "pgq":
        query = (
            "select to_regclass(%s) is not null or exists (select from pg_proc where proname = %s)"
        )
        return bool(connection.execute(query, [name, attribute]).fetchone()[0])
    if owner == "calls":
        module, _, function = attribute.partition(".")
        return hasattr(getattr(calls, module), function)
    if owner in OWNERS and attribute:
        return name in IN_MESSAGES or hasattr(OWNERS[owner], attribute)
    if " = " in name:
        setting, _, value = name.partition(" = ")
        names = {"ValueError": ValueError}
        members = {setting: eval(value, names)}  # the page is ours
        return setting in BaseConsumer.__annotations__ and bool(members)
    return hasattr(consumers, name)
