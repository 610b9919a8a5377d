"""Count the lines of the project, beside the limits that they shall keep."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {  # lines; folder/suffix
    "hand-written Python": (37_500, ("pgqpy/py", "ticker/py", "consumers/py", "tools/py")),
    "SQL": (10_500, ("schema/sql",)),
    "tests": (65_000, ("tests/py", "tests/sql")),
}


def lines(part: str) -> int:
    """Return the number of lines of a folder's files, without the generated ones."""
    folder, suffix = part.split("/")
    files = (ROOT / folder).rglob(f"*.{suffix}")
    return sum(file.read_bytes().count(b"\n") for file in files if file.parent.name != "_sync")


for name, (limit, parts) in LIMITS.items():
    print(f"weight: {sum(map(lines, parts)):,} lines of {name}, at most {limit:,} wanted")
