"""Mutants of the engine's SQL: a condition that no test misses when it is gone has no test.

A mutant is a file with one change: without a condition, a lock clause, an ON CONFLICT clause, a
statement, with an IF that is always or never taken, with `<` for `<=` or max for min. Mutants are
made from the tokens of the functions' bodies, so no comment and no name changes; of a string, only
what is dynamic SQL at first sight. What PostgreSQL does not compile is no mutant.

What bounds the cost, as in pitest, mutmut and cosmic-ray:

- Only tests that call a function of the file run. Each test runs once with track_functions = 'all',
  and `.mutants/calls.json` keeps which functions it called and how long it took. A function that
  is inlined is counted nowhere: then the tests of the functions that name it run.
- A mutant ends with the first test that fails. Tests that killed most go first, then those that
  have rare words in common with the change, for at most --budget seconds.
- One pytest process runs many mutants (tests/support/mutants.py). It collects once, and puts each
  mutant into every database of its server, so also into the templates that tests clone.
- A test that fails under a mutant must pass without it, once. What hangs is killed.
- `.mutants/killed.json` keeps who killed a mutant, until the test's module changes.

`tools/mutants.json` is committed: for each file the hash of its functions' bodies, the number of
its mutants (0: not run yet), and each survivor with the reason why it may live. A file with this
hash is run only if it is named. A survivor without a reason fails the run, unless it is the file's
first. What does not fit into the time limit is reported, and fails nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = ROOT / "schema" / "functions"
LIST = ROOT / "tools" / "mutants.json"
STORE = ROOT / ".mutants"
CALLS, KILLED = STORE / "calls.json", STORE / "killed.json"
TESTS = ("tests/guarantees", "tests/schema", "tests/capture")
NOBODY = "nobody"  # no test failed, as tests/support/mutants.py says

TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|(?P<text>'(?:[^']|'')*'|\"[^\"]*\"|\$\w*\$|\w+|:=|::"
    r"|[-+*/<>=~!@#%^&|`?]+|\S)",
    re.DOTALL,
)
CONDITIONS = {"where", "on", "if", "elsif", "when", "having"}
# Where an operand of AND and OR begins or ends, if it is at the same depth of parentheses.
WORDS = (
    "and or then loop group order limit for union except returning window from join left right "
    "inner full cross else select set using offset exit return begin ; , := =>"
)
EDGES = CONDITIONS | set(WORDS.split())
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
CALL_SWAPS = {"min": "max", "max": "min", "least": "greatest", "greatest": "least"}
LOCK = re.compile(
    r"\bfor\s+(no\s+key\s+update|update|key\s+share|share)\b(\s+of\s+\w+(\s*,\s*\w+)*)?"
    r"(\s+nowait|\s+skip\s+locked)?",
    re.IGNORECASE,
)
STATEMENTS = {"perform", "execute", "insert", "update", "delete"}
BEFORE_STATEMENT = {";", "then", "else", "begin", "loop"}
DYNAMIC = re.compile(r"'\s*(and|or|where|order by|on conflict|for)\s", re.IGNORECASE)
OPERATOR = re.compile(r"operator\(pg_catalog\.([<>]=?)\)")


class Token(NamedTuple):
    """A word, operator or string of a function's body, and how many parentheses are around it."""

    word: str
    start: int
    end: int
    depth: int


class Mutant(NamedTuple):
    """A changed text of a file, and what is changed in it."""

    file: str
    name: str
    sql: str


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens between dollar quotes; inner dollar quotes count as nothing."""
    found, depth, body, before = [], 0, "", ""
    between = set()  # depths with a BETWEEN whose AND is still to come
    for match in TOKEN.finditer(sql):
        word = (match["text"] or "").lower()
        if word.startswith("$") and word.endswith("$") and len(word) > 1:
            body = "" if word == body else body or word
        elif word and body:
            depth -= word in {")", "]"}
            if (before, word) == ("distinct", "from") or (word == "and" and depth in between):
                between.discard(depth)
                word = f"no {word}"  # none that begins or ends anything
            elif word == "between":
                between.add(depth)
            found.append(Token(word, match.start(), match.end(), depth))
            depth += word in {"(", "["}
            before = word
    return found


def mutants(file: str, sql: str) -> Iterator[Mutant]:
    """Yield the mutants of a file, each with a name that tells what it changes."""
    seen, made = Counter[str](), set()
    for start, end, new in sorted(changes(sql)):
        changed = sql[:start] + new + sql[end:]
        if changed in made or new == sql[start:end]:
            continue
        made.add(changed)
        name = f"{textwrap.shorten(sql[start:end], 100)} -> {new}"
        seen[name] += 1
        yield Mutant(file, name + (f" #{seen[name]}" if seen[name] > 1 else ""), changed)


def changes(sql: str) -> Iterator[tuple[int, int, str]]:
    """Yield the changes as start, end, new text."""
    tokens = tokens_of(sql)
    for n, (word, start, end, depth) in enumerate(tokens):
        before = tokens[n - 1].word if n else ";"
        after = tokens[n + 1].word if n + 1 < len(tokens) else ";"
        if word in SWAPS or (word in CALL_SWAPS and after == "("):
            yield start, end, SWAPS.get(word) or CALL_SWAPS[word]
        elif lock := LOCK.match(sql, start):
            yield start, lock.end(), ""
        elif (word, after) == ("on", "conflict"):
            yield start, tokens[_until(tokens, n + 1, {"returning", ";"}, depth) - 1].end, ""
        elif word in STATEMENTS and before in BEFORE_STATEMENT:
            yield start, tokens[_until(tokens, n, {";"}, depth) - 1].end, "null"
        elif before != "end":  # no END IF
            yield from _conditions(tokens, n)
        if DYNAMIC.match(sql, start):
            yield start, end, "''"
        yield from ((*each.span(1), SWAPS[each[1]]) for each in OPERATOR.finditer(sql, start, end))


def _conditions(tokens: list[Token], n: int) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of what follows WHERE, AND and the like."""
    word, _, _, depth = tokens[n]
    end = _until(tokens, n + 1, EDGES, depth)
    if word in CONDITIONS:
        is_before_or = end < len(tokens) and tokens[end].word == "or"
        yield from _replaced(tokens, n + 1, end, "false" if is_before_or else "true")
    elif word in {"and", "or"}:
        neutral = "true" if word == "and" else "false"
        yield from _replaced(tokens, n + 1, end, neutral)
        yield from _replaced(tokens, _first_operand(tokens, n), n, neutral)
    for value in ("false", "true") if word in {"if", "elsif"} else ():
        yield from _replaced(tokens, n + 1, _until(tokens, n + 1, {"then"}, depth), value)


def _first_operand(tokens: list[Token], n: int) -> int:
    """Return where an operand before AND and OR begins that has no such word before it."""
    depth, first = tokens[n].depth, n
    while tokens[first - 1].depth > depth or (
        tokens[first - 1].depth == depth and tokens[first - 1].word not in EDGES
    ):
        first -= 1
    return n if tokens[first - 1].word in {*CONDITIONS, "and", "or"} else first


def _replaced(tokens: list[Token], n: int, end: int, new: str) -> Iterator[tuple[int, int, str]]:
    if n < end:
        yield tokens[n].start, tokens[end - 1].end, new


def _until(tokens: list[Token], n: int, edges: set[str], depth: int) -> int:
    """Return where the next edge at this depth is, or the parenthesis that ends it."""
    while n < len(tokens) and tokens[n].depth >= depth:
        if tokens[n].depth == depth and tokens[n].word in edges:
            break
        n += 1
    return n


def learned(jobs: int) -> dict[str, tuple[float, list[str]]]:
    """Return the seconds of each test and what it calls; run the tests of which that is unknown."""
    calls = {test: each for test, each in _read(CALLS).items() if each[-1] == _module_hash(test)}
    known = {test.partition("::")[0] for test in calls}
    paths = [path for each in TESTS for path in (ROOT / each).glob("test_*.py")]
    modules = {path.relative_to(ROOT).as_posix() for path in paths}
    if modules - known:
        print(f"mutants: learning what {len(modules - known)} modules call", flush=True)
        job = {"mode": "learn", "out": str(STORE / "calls.jsonl")}
        run_pytest(job, [*sorted(modules - known), "-n", str(jobs), "-m", "not slow and not long"])
        for line in (line for file in STORE.glob("calls.*.jsonl") for line in _lines_of(file)):
            if module := _module_hash(line["test"]):  # not deleted since
                calls[line["test"]] = line["seconds"], line["calls"], module
        CALLS.write_text(json.dumps(calls))
    return {test: (seconds, names) for test, (seconds, names, _) in calls.items()}


def tests_by_file(calls: dict[str, tuple[float, list[str]]]) -> dict[str, list[tuple[str, float]]]:
    """Return the tests of each file of functions, with their seconds, in the order to try them."""
    by_name: dict[str, set[tuple[float, str]]] = defaultdict(set)
    for test, (seconds, called) in calls.items():
        for name in called:
            by_name[name].add((seconds, test))
    texts = {path.stem: path.read_text() for path in FUNCTIONS.rglob("*.sql")}
    found = {}
    for file in FUNCTIONS.rglob("*.sql"):
        names, known = {file.stem}, set[str]()
        while names and not any(name in by_name for name in names):
            known |= names
            named = re.compile(rf"\bpgq\.({'|'.join(names)})\(")
            names = {name for name, text in texts.items() if named.search(text)} - known
        turns: dict[str, int] = defaultdict(int)
        tests = []
        for seconds, test in sorted(set().union(*(by_name[name] for name in names))):
            module = test.partition("::")[0]
            turns[module] += 1
            tests.append((turns[module] + seconds, seconds, test))
        found[_relative(file)] = [(test, seconds) for _, seconds, test in sorted(tests)]
    return found


def run(options: argparse.Namespace) -> int:
    """Run the mutants of files; return 1 if one survives without a reason."""
    listed, tests = _read(LIST), tests_by_file(learned(options.jobs))
    made = {file: list(mutants(file, _text_of(file))) for file in options.files}
    known = {key: who for key, (who, of) in _read(KILLED).items() if of == _module_hash(who)}
    todo = [each for found in made.values() for each in found if _key_of(each) not in known]
    print(f"mutants: {len(todo)} of {len(made)} files to run", flush=True)
    known |= execute(todo, tests, options)
    killed = {key: (who, _module_hash(who)) for key, who in known.items() if who != NOBODY}
    KILLED.write_text(json.dumps(killed))
    unexplained = 0
    for file, found in made.items():
        ends = {each.name: known[_key_of(each)] for each in found if _key_of(each) in known}
        if len(ends) < len(found):
            print(f"mutants: {file}: {len(found) - len(ends)} of {len(found)} left over")
            continue
        entry = listed.get(file, {})
        new = "?" if entry.get("mutants") else "not looked at yet"
        why = entry.get("survivors", {})
        alive = {name: why.get(name, new) for name, who in ends.items() if who == NOBODY}
        listed[file] = {"hash": _hash_of(_text_of(file)), "mutants": len(ends), "survivors": alive}
        unseen = [name for name, reason in alive.items() if reason == new]
        print("".join(f"mutants: {file}: no test notices {name}\n" for name in unseen), end="")
        unexplained += len(unseen) * (new == "?")
    files = [file for file in sorted(listed) if (FUNCTIONS / file).exists()]
    LIST.write_text(json.dumps({file: listed[file] for file in files}, indent=1) + "\n")
    return min(unexplained, 1)


def execute(
    todo: list[Mutant], tests: dict[str, list[tuple[str, float]]], options: argparse.Namespace
) -> dict[str, str]:
    """Run mutants in processes of pytest side by side; return who killed each, by its key."""

    def work(number: int) -> dict[str, str]:
        part, killers = todo[number :: options.jobs], dict[str, str]()
        while part and time.time() < options.until:
            files = {each.file: tests[each.file] for each in part}
            modules = {test.partition("::")[0] for each in files.values() for test, _ in each}
            out = STORE / f"killers.{number}.jsonl"
            out.unlink(missing_ok=True)
            job = {"mode": "run", "out": str(out), "until": options.until, "budget": options.budget}
            job |= {"tests": files, "mutants": [{**m._asdict(), "key": _key_of(m)} for m in part]}
            run_pytest(job, [*(modules or TESTS), "-p", "no:xdist"], number)
            if not out.exists():  # this is no mutant's fault
                print((STORE / f"pytest.{number}.log").read_text())
                break
            killers |= {each["key"]: each["killer"] for each in _lines_of(out)}
            # A process that a mutant has killed leaves those after it.
            part = [each for each in part if _key_of(each) not in killers]
        return killers

    with ThreadPoolExecutor(options.jobs) as pool:
        return dict(pair for each in pool.map(work, range(options.jobs)) for pair in each.items())


def run_pytest(job: dict[str, Any], arguments: list[str], number: int = 0) -> None:
    """Run pytest with the plugin; its output goes to a file."""
    place, log = STORE / f"job.{number}.json", STORE / f"pytest.{number}.log"
    place.write_text(json.dumps(job))
    plugins = ["-p", "tests.support.mutants", "-p", "no:randomly", "-p", "no:cacheprovider"]
    # What a test of one mutant leaves behind must not fail the next test.
    plugins += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    env = {**os.environ, "PGQPY_MUTANTS": str(place), "PGQPY_TEST_TWINS": "one"}
    with log.open("w") as file:
        subprocess.run(command, cwd=ROOT, env=env, stdout=file, stderr=file, check=False)


def _lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _text_of(file: str) -> str:
    return (FUNCTIONS / file).read_text()


def _relative(path: Path) -> str:
    return path.resolve().relative_to(FUNCTIONS).as_posix()


def _hash_of(text: str) -> str:  # of the functions' bodies, without comments
    words = [text[token.start : token.end] for token in tokens_of(text)]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def _module_hash(test: str) -> str:
    module = ROOT / test.partition("::")[0]
    return hashlib.sha256(module.read_bytes()).hexdigest()[:12] if module.is_file() else ""


def _key_of(mutant: Mutant) -> str:
    return f"{mutant.file} {_hash_of(mutant.sql)}"


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Run mutants of the engine's SQL.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=86400, help="seconds for all")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for one mutant")
    options = parser.parse_args()
    options.until = time.time() + options.limit
    STORE.mkdir(exist_ok=True)
    listed = _read(LIST)
    options.files = [_relative(path) for path in options.files] or [
        file
        for file in sorted(map(_relative, FUNCTIONS.rglob("*.sql")))
        if file not in listed or listed[file]["hash"] != _hash_of(_text_of(file))
    ]
    print(f"mutants: {sum(not each['mutants'] for each in listed.values())} listed without a run")
    return run(options) if options.files else 0


if __name__ == "__main__":
    sys.exit(main())
