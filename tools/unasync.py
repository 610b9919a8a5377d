"""Generate the sync twins of the async sources, line for line.

    python tools/unasync.py            write them
    python tools/unasync.py --check    exit 1 if one is stale or left over, or a rule is idle

`_async*.py` gives `_sync*.py`, a folder `_async/` gives `_sync/`. Line for line, so that tracebacks
of both name the same lines. RULES is the whole translation: regular expressions, applied in
order to every file; one that matches nowhere is a failure.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pgqpy/client", "consumers")

# Stands in the twin's docstring, so that no line moves.
GENERATED = "[Generated from {source} by tools/unasync.py: edit that file, not this one.]"

RULES = (
    # Names of ours and of psycopg: AsyncClient, AsyncConnection, abc.AsyncIterator, ...
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAsyncGenerator\[([\w\[\]]+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"\b_async(_\w+)?\b", r"_sync\1"),
    (r"\b(\w+?)_async\b", r"\1"),
    # The language.
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\baclos(e|ing)\b", r"clos\1"),
)


def translate(text: str, source: str, used: set[str]) -> str:
    """Return the sync twin of an async source; note the rules that matched."""
    if not text.startswith('"""'):
        raise SystemExit(f"{source}: begin it with a docstring, where the twin says its origin")
    for pattern, replacement in RULES:
        text, hits = re.subn(pattern, replacement, text)
        if hits:
            used.add(pattern)
    return text.replace('"""', f'"""{GENERATED.format(source=source)} ', 1)


def files(package: Path, stem: str) -> list[Path]:
    """Return the files of a package named `stem…py` or in its folder `stem/`."""
    return sorted([*package.glob(f"{stem}*.py"), *package.glob(f"{stem}/**/*.py")])


def twin(package: Path, source: Path) -> Path:
    """Return the path of a source's twin."""
    first, *rest = source.relative_to(package).parts
    return package.joinpath(first.replace("_async", "_sync", 1), *rest)


def twins(root: Path) -> tuple[dict[Path, str], set[str]]:
    """Return what every generated file should hold, and the rules that were used."""
    used: set[str] = set()
    wanted = {}
    for package in (root / name for name in PACKAGES):
        for source in files(package, "_async"):
            text = source.read_text(encoding="utf-8")
            name = source.relative_to(package).as_posix()
            wanted[twin(package, source)] = translate(text, name, used)
    return wanted, used


def problems(root: Path, wanted: dict[Path, str], used: set[str]) -> list[str]:
    """Say what is wrong with the files on disk and with the rules."""
    found = [f"rule {pattern!r} matched nothing" for pattern, _ in RULES if pattern not in used]
    for target, text in wanted.items():
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            found.append(f"{target.relative_to(root)} is stale: run python tools/unasync.py")
    for package in (root / name for name in PACKAGES):
        found += [
            f"{left.relative_to(root)} has no source: delete it"
            for left in files(package, "_sync")
            if left not in wanted
        ]
    return found


def write(wanted: dict[Path, str]) -> None:
    """Write the files that differ."""
    for target, text in wanted.items():
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write the twins, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if anything is stale"
    )
    check: bool = parser.parse_args(arguments).check
    wanted, used = twins(root)
    if not check:
        write(wanted)
    found = problems(root, wanted, used)
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
