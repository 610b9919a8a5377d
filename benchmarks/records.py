"""What is kept of a case: its section, and when, where and how long it was measured."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks import cases, markdown, plots, report

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.report import Section


@dataclass(frozen=True)
class Record:
    """A case's result.

    Attributes:
        section: what it found out.
        when: the day and the minute, UTC.
        commit: of the working tree; "+" if it had changes.
        length: smoke, default or long.
        rounds: how often each contestant ran.
        seconds: how long the case took.
        environment: names and values: machine, versions, settings.
        plots: the names of the files of the section's plots.
    """

    section: Section
    when: str
    commit: str
    length: str
    rounds: int
    seconds: float
    environment: dict[str, str]
    plots: list[str] = field(default_factory=list)


def save(record: Record, folder: Path) -> None:
    """Write a record and its plots into `folder`, and the results file beside it anew."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(record.section, folder)
    found: dict[str, Any] = {**vars(record), "section": report.to_json(record.section)}
    text = json.dumps({**found, "plots": drawn}, indent=1, ensure_ascii=False)
    (folder / f"{record.section.case}.json").write_text(text + "\n")
    (folder.parent / "results.md").write_text(markdown.render(load(folder)))


def load(folder: Path) -> list[Record]:
    """Return the records of a folder, in the order of the cases."""
    files = [folder / f"{case}.json" for case in cases.ORDER]
    return [_read(json.loads(file.read_text())) for file in files if file.exists()]


def _read(found: dict[str, Any]) -> Record:
    return Record(**{**found, "section": report.from_json(found["section"])})
