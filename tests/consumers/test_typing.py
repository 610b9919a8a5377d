"""What type checkers say about programs: nothing about right ones, an error for each wrong line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

from tests.support.tree import ROOT

SAMPLE = Path(__file__).with_name("typed_handlers.txt")
PYRIGHT = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}


def mypy(sample: Path) -> str:
    options = ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")]
    out, err, _ = api.run([*options, "--config-file", str(ROOT / "pyproject.toml"), str(sample)])
    assert err == ""
    return out


def pyright(sample: Path) -> str:
    """Run pyright's engine, in the wheel of basedpyright, as pyright is set by default."""
    config = sample.with_name("pyrightconfig.json")
    config.write_text(json.dumps(PYRIGHT))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    words = [*command, "--project", str(config), str(sample)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode in {0, 1}, done.stderr
    return re.sub(r"\.py:(\d+):\d+ - ", r".py:\1: ", done.stdout)


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_accepts_right_programs_and_reports_every_wrong_line(checker, tmp_path):
    sample = tmp_path / "typed_handlers.py"
    sample.write_text(SAMPLE.read_text())
    out = checker(sample)
    found = {int(number) for number in re.findall(r"typed_handlers\.py:(\d+): error", out)}
    lines = SAMPLE.read_text().splitlines()
    wanted = {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert found == wanted, out
