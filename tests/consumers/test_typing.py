"""What a type checker says about handlers: nothing about right ones, an error for wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

from mypy import api

from tests.support.tree import ROOT

SAMPLE = Path(__file__).with_name("typed_handlers.txt")


def test_mypy_accepts_right_handlers_and_reports_every_wrong_one(tmp_path):
    sample = tmp_path / "typed_handlers.py"
    sample.write_text(SAMPLE.read_text())
    options = ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")]
    out, err, _ = api.run([*options, "--config-file", str(ROOT / "pyproject.toml"), str(sample)])
    assert err == ""
    found = {int(number) for number in re.findall(r"typed_handlers\.py:(\d+): error", out)}
    lines = SAMPLE.read_text().splitlines()
    wanted = {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert found == wanted, out
