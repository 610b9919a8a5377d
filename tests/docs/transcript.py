"""Run the commands of a console block, and compare what they print with what it shows.

`$ command &` stays in the background until the end. `^C` after the output of a command that does
not end by itself: it is interrupted once it has printed that, as a reader does who sees it rest: a
consumer that runs has no pending events then. Log lines may come in between.

A command of pgqpy that looks or changes something, and ends, runs in this process, and so do
programs: they need not start Python. One that goes on is forked from a process that has imported
pgqpy. Commands of the README are run as by its reader.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from click.testing import CliRunner

from pgqpy.cli.app import app
from pgqpy.embedded import wheel_programs
from tests.docs.markdown import shape
from tests.support.fork_server import ForkedProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from tests.docs.markdown import Block

TIMEOUT = 150  # seconds for one command; Spark alone needs ten to start, on a busy machine fifty
INTERRUPTED = "^C"
README = "README.md"
ONCE = ("settings.configure", "set_tracer_provider", "create_engine")  # for a whole process
PROGRAM = re.compile(r"python (\w+\.py)")
PLAIN = re.compile(r"(?:pgqpy|python \w+\.py)(?: [^|<>&;$`*~()]*)?")  # no shell would expand it
# Not the commands `run`, which import modules of the folder.
AT_ONCE = re.compile(
    r"pgqpy (archive|consumer|cron|doctor|event|queue|schema) (?!run\b)[^|<>&;$`*~()]*"
)


class Step(NamedTuple):
    """A command and the lines shown under it."""

    command: str
    shown: list[str]


def steps(block: Block) -> list[Step]:
    """Return the commands of a block."""
    found: list[Step] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ "), []))
        else:
            found[-1].shown.append(line)
    return found


class Shell:
    """A terminal in a folder, for a database. Use as a context manager."""

    def __init__(self, folder: Path, dsn: str) -> None:
        """Start nothing yet."""
        self._folder = folder
        self._stack = ExitStack()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        mine = {"PATH": programs, "PGQPY_DSN": dsn, "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, **mine}
        self._forks = True  # unless the page is the README

    def __enter__(self) -> Self:
        """Return the shell."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what runs in the background."""
        self._stack.close()

    def run(self, block: Block) -> None:
        """Run a block's commands in order; AssertionError if one fails or prints something else."""
        self._forks = block.document != README
        for step in steps(block):
            where = f"{block.document}:{block.line}: $ {step.command}"
            if step.command.endswith("&"):
                self._start(step.command.removesuffix("&"))
            elif step.shown[-1:] == [INTERRUPTED]:
                self._run_until(where, step)
            elif block.document == README:
                self._run(where, step)
            elif AT_ONCE.fullmatch(step.command):
                self._run_here(where, step)
            elif program := PROGRAM.fullmatch(step.command):
                check(where, step.shown, self._run_program(where, program[1]))
            else:
                self._run(where, step)

    def program(self, block: Block) -> str:
        """Run a block of Python; return what it prints."""
        where = f"{block.document}:{block.line}"
        (self._folder / "block.py").write_text(block.text)
        return self._run_program(where, "block.py")

    def psql(self, script: str) -> str:
        """Run a script as psql does, each statement a transaction; return what it prints."""
        program = [str(wheel_programs() / "psql"), "-X", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*program, self._environment["PGQPY_DSN"]],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def _here(self) -> Iterator[None]:
        before, environment, modules = Path.cwd(), dict(os.environ), set(sys.modules)
        os.chdir(self._folder)
        os.environ.update(self._environment)
        sys.path.insert(0, str(self._folder))
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
            sys.path.remove(str(self._folder))
            for file in self._folder.glob("*.py"):
                if file.stem not in modules:
                    sys.modules.pop(file.stem, None)

    def _run_program(self, where: str, name: str) -> str:
        if any(call in (self._folder / name).read_text() for call in ONCE):
            return self._run(where, Step(f"python {name}", []))
        with self._here(), redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(name, run_name="__main__")
        return printed.getvalue()

    def _run_here(self, where: str, step: Step) -> None:
        with self._here():
            words = shlex.split(step.command)[1:]
            result = CliRunner(env=self._environment).invoke(app, words, prog_name="pgqpy")
        assert result.exit_code == 0, f"{where}\nexit code {result.exit_code}:\n{result.output}"
        check(where, step.shown, result.output)

    def _run(self, where: str, step: Step) -> str:
        process, output = self._start(step.command)
        code = process.wait(TIMEOUT)
        printed = output.read_text()
        assert code == 0, f"{where}\nexit code {code}:\n{printed}"
        check(where, step.shown, printed)
        return printed

    def _run_until(self, where: str, step: Step) -> None:
        process, output = self._start(step.command)

        def printed() -> bool:
            check(where, step.shown[:-1], output.read_text())
            return self._rests()

        eventually(printed, TIMEOUT)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0, f"{where}\n{output.read_text()}"

    def _rests(self) -> bool:
        listed = CliRunner(env=self._environment).invoke(app, ["consumer", "list", "--json"])
        assert listed.exit_code == 0, listed.output
        return not any(row["runs"] and row["pending_events"] for row in json.loads(listed.stdout))

    def _start(self, command: str, *, reads: bool = False) -> tuple[subprocess.Popen[bytes], Path]:
        output = Path(self._stack.enter_context(tempfile.TemporaryDirectory())) / "output"
        kind: type[subprocess.Popen[bytes]] = subprocess.Popen
        words, environment = ["/bin/sh", "-c", f"exec {command}"], dict(self._environment)
        if self._forks and PLAIN.fullmatch(command):
            how = ["-m"] if command.startswith("pgqpy") else []
            called = shlex.split(command.removeprefix("python "))
            kind, words = ForkedProcess, [sys.executable, "-u", *how, *called]
            del environment["PYTHONUNBUFFERED"]  # -u says it
        with output.open("wb") as file:
            process = kind(
                words,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._stack.callback(process.wait, TIMEOUT)
        self._stack.callback(process.kill)
        if process.stdin is not None:
            self._stack.callback(process.stdin.close)
        return process, output


def check(where: str, shown: list[str], printed: str) -> None:
    """AssertionError unless the shown lines were printed, in this order, log lines in between."""
    lines = iter(shape(printed))
    for line in shape("\n".join(shown)):
        assert line in lines, f"{where}\ndid not print {line!r}, but:\n{printed}"
