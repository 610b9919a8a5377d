"""The files in deploy/ use metrics that exist, and each alert has its entry in the runbook."""

from __future__ import annotations

import json
import re

import click

from pgqpy.cli.app import app
from tests.deploy.exposed import ALERTS, BOARD, NAME, alerts, board_queries, panels, samples
from tests.docs.markdown import codes, rows, text
from tests.support.tree import ROOT

RUNBOOK = "docs/runbook.md"


def test_alerts_and_board_ask_for_metrics_that_are_exposed() -> None:
    asked = set(NAME.findall(ALERTS.read_text())) | set(NAME.findall(BOARD.read_text()))
    assert asked - samples() == set()


def test_each_panel_has_its_place_and_its_queries() -> None:
    board = json.loads(BOARD.read_text())
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = [tuple(panel["gridPos"][key] for key in "xy") for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["title"] and panel["targets"] for panel in panels())
    assert len(board_queries()) >= len(panels())


def test_each_alert_has_a_severity_a_summary_and_a_runbook_entry() -> None:
    described = re.findall(r"^### (Pgq\w+)$", text(RUNBOOK), flags=re.MULTILINE)
    assert described == list(alerts())
    for name, rule in alerts().items():
        assert re.search(r"severity: (critical|warning)\b", rule), name
        assert "summary: " in rule, name


def test_each_runbook_entry_says_what_it_means_how_to_confirm_and_what_to_do() -> None:
    entries = re.split(r"^### ", text(RUNBOOK), flags=re.MULTILINE)[1:]
    for entry in entries:
        name = entry.splitlines()[0]
        for part in ("**Means.**", "**Confirm.**", "**Do.**"):
            assert part in entry, f"{name} lacks {part}"


def test_the_runbook_names_commands_and_options_that_exist() -> None:
    for code in codes(text(RUNBOOK).replace("\n", " ")):
        command: click.Command = app
        words = code.split()
        if words[0] != "pgqpy":
            continue
        for word in words[1:3]:
            if isinstance(command, click.Group):
                found = command.get_command(click.Context(command), word)
                assert found is not None, code
                command = found
        known = [option for each in command.params for option in each.opts + each.secondary_opts]
        assert {word for word in words if word.startswith("--")} <= set(known), code


def test_the_runbook_lists_what_doctor_finds() -> None:
    sources = [path.read_text() for path in (ROOT / "pgqpy/doctor").glob("*.py")]
    made = r'Finding\(\s*[^,()]+,\s*(?:"([^"]+)"|check\.name)'
    found = [name for source in sources for name in re.findall(made, source)]
    assert len(found) == sum(source.count("Finding(") for source in sources) - 1  # its class
    described = {name for cells in rows(RUNBOOK, "check") for name in codes(cells[0])}
    assert described == set(found) - {""}
