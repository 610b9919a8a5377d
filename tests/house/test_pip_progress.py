"""tools/pip_progress.py: what `make setup` prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import ROOT
from tools.pip_progress import progress

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
TOOL = ROOT / "tools/pip_progress.py"


def install(folder: Path, backend: str) -> subprocess.CompletedProcess[str]:
    """Let pip install a package without dependencies that this backend builds."""
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(backend)
    options = ("--no-build-isolation", "--no-deps", "--target", str(folder / "to"))
    return subprocess.run(
        [sys.executable, str(TOOL), *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_if_pip_fails_all_that_it_printed_is_shown(tmp_path: Path) -> None:
    ended = install(tmp_path, "def build_wheel(*_, **__):\n    raise OSError('no compiler here')\n")
    assert ended.returncode != 0
    assert "Processing " in ended.stderr
    assert "no compiler here" in ended.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Collecting pyspark>=3.5", None),
        ("  Downloading pyspark-4.0.1.tar.gz (434.2 MB)", "downloading pyspark (434.2 MB)"),
        ("Downloading pandas_stubs-2.3-py3-none-any.whl.metadata (2 kB)", None),
        ("Downloading click-8.1-py3-none-any.whl (1.5 MB)", None),
        ("Downloading https://x.org/py_arrow-21-cp312.whl (42 MB)", "downloading py_arrow (42 MB)"),
        ("  Building wheel for pyspark (pyproject.toml): started", "building pyspark"),
        ("  Building wheel for pyspark (pyproject.toml): finished with status 'done'", None),
        ("Installing collected packages: a, b, c", "installing 3 package(s)"),
        ("Successfully installed a-1 b-2 c-3", None),
    ],
)
def test_only_big_downloads_and_steps_are_told(line: str, said: str | None) -> None:
    assert progress(line) == said
