"""House rules that are queries over the tree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from tests.support.tree import ROOT, files

LONGEST = 600  # lines
SHORTEST = 40  # lines
WIDEST = 100  # columns
MODULES, LINES = 25, 4080  # that a plain consumer needs; 3,000 lines are wanted
# Each with the reason why it is no part of a longer one.
SHORT = {
    "consumers/for_tools.py": "what spark and archive may see of the consumers",
    "pgqpy/archive/errors.py": "commands import it without pyarrow",
    "tools/weight.py": "a count that make check prints",
    "pgqpy/pipeline/run.py": "the entry, which imports pyspark only when it runs",
    "pgqpy/django/migrations/0001_schema_1.py": "a migration",
    "pgqpy/log_format.py": "shared by the ticker and pgqpy consumer run",
    "pgqpy/settings.py": "below all that have settings",
    "tools/postgres.py": "a script",
}
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_links_lead_to_the_real_folders_and_git_keeps_them_as_links() -> None:
    names = ("ticker", "consumers", "schema")
    for name in names:
        link = os.readlink(ROOT / "pgqpy" / name)  # noqa: PTH115  # the text of the link counts
        assert link == f"../{name}"
    command = ["git", "ls-files", "--stage", *(f"pgqpy/{name}" for name in names)]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["120000"] * 3


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {str(name): len(_text(name).splitlines()) for name in files("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST} == {}


def test_a_module_shorter_than_40_lines_has_a_reason() -> None:
    """What is read together stands together; faces of folders are as short as they can be."""
    written = [
        name
        for name in files("pgqpy/*.py", "ticker/*.py", "consumers/*.py", "tools/*.py")
        if not name.name.startswith("__") and "_sync" not in name.parts
    ]
    short = {str(name) for name in written if len(_text(name).splitlines()) < SHORTEST}
    assert short <= set(SHORT)


def test_a_plain_consumer_is_few_modules_and_lines() -> None:
    """So many a reader holds in mind; of the twins one counts."""
    code = """
import sys
from pgqpy.consumers import Consumer
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith("pgqpy.consumers")))
"""
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    read = [Path(name) for name in loaded if "_sync" not in name]
    assert len(read) <= MODULES
    assert sum(len(name.read_text(encoding="utf-8").splitlines()) for name in read) <= LINES


def test_no_line_of_sql_is_wider_than_100_columns() -> None:
    wide = [
        f"{name}:{number}"
        for name in files("*.sql")
        for number, line in enumerate(_text(name).splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert wide == []


def test_the_changelog_begins_with_this_version() -> None:
    newest = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    declared = re.search(r'^version = "(.+)"', PYPROJECT, re.MULTILINE)
    assert newest is not None
    assert declared is not None
    assert newest[1] == declared[1] == version("pgqpy")


def test_every_make_target_says_what_it_does() -> None:
    makefile = _text("Makefile")
    phony = re.search(r"^\.PHONY: (.+)", makefile, re.MULTILINE)
    assert phony is not None
    described = set(re.findall(r"^([a-z-]+):.* ## ", makefile, re.MULTILINE))
    assert set(phony[1].split()) == described


def test_every_ignored_lint_rule_has_its_reason_beside_it() -> None:
    lint = PYPROJECT.partition("[tool.ruff.lint]")[2]
    rules = re.findall(r'^    "[A-Z]+\d*",(.*)$', lint, re.MULTILINE)
    assert rules
    assert all(re.fullmatch(r"  # \S.+", reason) for reason in rules)


def test_every_suppressed_warning_in_the_code_has_its_reason() -> None:
    mark = re.compile(r"# (noqa|type: ignore|pragma)(?!.*\S  # \S)")
    bare = [
        f"{name}:{number}"
        for name in files("*.py")
        for number, line in enumerate(_text(name).splitlines(), 1)
        if mark.search(line) and "re.compile" not in line
    ]
    assert bare == []


def test_no_test_sleeps() -> None:
    may = {
        "tests/support/waiting.py",  # the one place where tests wait
        "tests/guarantees/workload.py",  # a program that tests run: a producer with a rate
        "tests/guarantees/storm_load.py",  # another one
        "tests/spark/harness_producer.py",  # as those
        "tests/stress/__main__.py",  # the storm over shared consumers
        "tests/stress/changer.py",
        "tests/stress/producers.py",
        "tests/stress/workers.py",
    }
    tests = [name for name in files("tests/*.py") if name.as_posix() not in may]
    assert [str(name) for name in tests if _names(name, "sleep")] == []


def test_connections_are_opened_in_one_place() -> None:
    """There a session's search_path, encoding and isolation are pinned."""
    opener = re.compile(r"(psycopg|Connection|kind)\.connect$")
    found = {
        str(name)
        for name in files("pgqpy/*.py", "ticker/*.py", "consumers/*.py")
        if ".connect(" in _text(name)
        and any(opener.search(ast.unparse(call)) for call in _calls(_text(name)))
    }
    assert found == {"pgqpy/client/_async/open.py", "pgqpy/client/_sync/open.py"}


def test_locks_have_their_numbers_in_one_place() -> None:
    sources = files("pgqpy/*.py", "ticker/*.py", "consumers/*.py")
    bare = [str(name) for name in sources if re.search(r"\b73665\d\d\b", _text(name))]
    assert bare == ["pgqpy/locks.py"]


def test_every_public_name_of_a_package_exists() -> None:
    faces = files("pgqpy/*__init__.py", "ticker/*__init__.py", "consumers/*__init__.py")
    names = ["pgqpy." + face.parent.as_posix().replace("/", ".") for face in faces]
    packages = [import_module(name.replace("pgqpy.pgqpy", "pgqpy")) for name in names]
    missing = [
        f"{package.__name__}.{name}"
        for package in packages
        for name in getattr(package, "__all__", ())
        if not hasattr(package, name)
    ]
    assert missing == []


def test_calls_of_the_client_note_their_block_before_they_wait_for_the_lock() -> None:
    """By runner.locked(). A call that waits outlives its block, and would be sent elsewhere."""
    lock = re.compile(r"\.exclusive\b(?!\.| =| import)")
    found = {
        name.name for name in files("pgqpy/client/_async/*.py") if lock.search(_text(str(name)))
    }
    # receive() is refused in its own block, and waits for those of others; the others do the same.
    assert found == {"messages.py", "base.py", "reading.py", "runner.py"}


def test_the_tree_is_mapped_in_the_readme() -> None:
    readme = _text("README.md")
    folders = {name.parts[0] for name in files() if len(name.parts) > 1}
    missing = {name for name in folders if not name.startswith(".") and f"{name}/" not in readme}
    assert missing == set()


def _text(name: str | os.PathLike[str]) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _names(name: str | os.PathLike[str], called: str) -> bool:
    """Say whether a function or method of this name is called; to parse all files takes seconds."""
    calls = _calls(_text(name)) if called in _text(name) else []
    return any(called in (getattr(call, "attr", ""), getattr(call, "id", "")) for call in calls)


def _calls(source: str) -> list[ast.expr]:
    return [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
