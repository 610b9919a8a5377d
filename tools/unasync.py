"""Generate the folders `_sync/` from the folders `_async/`, file by file, line for line.

    python tools/unasync.py            write the files of _sync/
    python tools/unasync.py --check    exit 1 if a file is stale or has no source, or a rule matched
                                       nothing

Line for line, so that tracebacks of both name the same lines. RULES is the whole translation:
regular expressions, applied in order to every file.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pgqpy/client", "pgqpy/sqlalchemy", "consumers")

# Written into the generated file's docstring, so that no line moves.
GENERATED = "[Generated from {source} by tools/unasync.py: edit that file, not this one.]"

RULES = (
    # Names of ours and of psycopg: AsyncClient, AsyncConnection, abc.AsyncIterator, ...
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAsyncGenerator\[([\w\[\]]+), None\]", r"Generator[\1, None, None]"),
    (r"\b(Abstract)?Async([A-Z]\w*)", r"\1\2"),
    (r"\b_async\b", "_sync"),
    (r"\b(\w+?)_async\b", r"\1"),
    # The language.
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\baclos(e|ing)\b", r"clos\1"),
    (r"\bag_running\b", "gi_running"),
)


def translate(text: str, source: str, used: set[str]) -> str:
    """Return the sync text of an async source; add the rules that matched to `used`."""
    if not text.startswith('"""'):
        raise SystemExit(f"{source}: begin it with a docstring; the generated file names it there")
    for pattern, replacement in RULES:
        text, hits = re.subn(pattern, replacement, text)
        if hits:
            used.add(pattern)
    return text.replace('"""', f'"""{GENERATED.format(source=source)} ', 1)


def generate(root: Path) -> tuple[dict[Path, str], set[str]]:
    """Return what every generated file should hold, and the rules that were used."""
    used: set[str] = set()
    wanted = {}
    for package in (root / name for name in PACKAGES):
        for source in (package / "_async").rglob("*.py"):
            name = source.relative_to(package / "_async")
            text = source.read_text(encoding="utf-8")
            wanted[package / "_sync" / name] = translate(text, f"_async/{name.as_posix()}", used)
    return wanted, used


def problems(root: Path, wanted: dict[Path, str], used: set[str]) -> list[str]:
    """Return what is wrong with the files on disk and with the rules."""
    found = [f"rule {pattern!r} matched nothing" for pattern, _ in RULES if pattern not in used]
    found += [
        f"{target.relative_to(root)} is stale: run python tools/unasync.py"
        for target, text in sorted(wanted.items())
        if not target.exists() or target.read_text(encoding="utf-8") != text
    ]
    on_disk = {file for name in PACKAGES for file in (root / name / "_sync").rglob("*.py")}
    left_over = sorted(on_disk - wanted.keys())
    return found + [f"{file.relative_to(root)} has no source: delete it" for file in left_over]


def write(wanted: dict[Path, str]) -> None:
    """Write the files that differ."""
    for target, text in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write the generated files, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if anything is stale"
    )
    check: bool = parser.parse_args(arguments).check
    wanted, used = generate(root)
    if not check:
        write(wanted)
    found = problems(root, wanted, used)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
