"""The files of the repository, as git lists them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files(*patterns: str) -> list[Path]:
    """Return the files that belong to the tree, committed or not yet, relative to its root.

    Links count as files; what git ignores does not count.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    names = {Path(name) for name in listed.stdout.split("\0") if name}
    return sorted(name for name in names if (ROOT / name).exists())
