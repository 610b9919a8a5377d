"""A process that has imported pgqpy, and forks: its children begin without a second of imports.

A child is what `python -u *args` would be: its own `__main__`, arguments, environment, working
directory, standard files and signal handlers, and it ends as an interpreter ends. Only its modules
are there already. A test of how a process begins asks for a fresh one: see PythonProcess.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IMPORTED = ("pgqpy.cli.app", "pgqpy.consumers", "pgqpy.dashboard.app", "pgqpy.ticker", "uvicorn")
EARLY = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")  # variables that are read when a process begins
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
POPEN: Any = subprocess.Popen  # its private parts have no types
RUNPY: Any = runpy
LONGEST = 2**18  # bytes of a request


def can_fork(args: Sequence[str], env: Mapping[str, str]) -> bool:
    """Say whether a child can be what `python *args` with `env` added would be."""
    changed = {name for name, value in env.items() if os.environ.get(name) != value}
    early = any(name.startswith(EARLY) for name in changed - {"PYTHONPATH"})
    return (args[0] in ("-c", "-m") or not args[0].startswith("-")) and not early


class ForkedProcess(subprocess.Popen[Any]):
    """`Popen([sys.executable, "-u", *args], …)`, forked by the server, which waits for it too."""

    def _execute_child(self, *args: Any, **kwargs: Any) -> None:
        given = signature(POPEN._execute_child).bind(self, *args, **kwargs).arguments
        ours = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [number if pipe == -1 else pipe for number, pipe in enumerate(ours)]
        where = str(given["cwd"] or Path.cwd())
        request = [given["args"][2:], dict(given["env"] or os.environ), where]
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            files.append(theirs.fileno())
            socket.send_fds(_server(), [json.dumps(request).encode()], files)
        self.pid = int(self._channel.recv(32))
        self._child_created = True
        POPEN._close_pipe_fds(self, *(given[name] for name in PIPES))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        try:
            status = self._channel.recv(32, socket.MSG_DONTWAIT if wait_flags else 0)
        except BlockingIOError:
            return 0, 0
        self._channel.close()
        return self.pid, int(status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        this: Any = self
        with this._waitpid_lock:
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    this._handle_exitstatus(status)
        return this.returncode


@cache
def _server() -> socket.socket:
    """Start the server of this process; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        place = theirs.fileno()
        server = subprocess.Popen([sys.executable, "-u", __file__, str(place)], pass_fds=[place])
    atexit.register(server.wait)
    atexit.register(ours.close)  # before that
    return ours


class Children:
    """The server's children that have not ended, each with the socket that waits for its end."""

    def __init__(self) -> None:
        """Report each child as it ends."""
        self.channels: dict[int, socket.socket] = {}
        signal.signal(signal.SIGCHLD, self._reap)

    def _reap(self, *_: object) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                with self.channels.pop(ended[0]) as channel, suppress(OSError):
                    channel.send(str(ended[1]).encode())

    def fork(self, channel: socket.socket) -> bool:
        """Fork and report the child's id; say whether this is the child."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        self.channels[pid] = channel
        if pid:
            channel.send(str(pid).encode())
        else:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in self.channels.values():
                each.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        return not pid


def serve(requests: socket.socket) -> tuple[list[str], dict[str, str], str]:
    """Fork for each request; returns what is asked for, in the children only."""
    children = Children()
    while True:
        request, files, *_ = socket.recv_fds(requests, LONGEST, 4)
        if not request:
            sys.exit()
        is_child = children.fork(socket.socket(fileno=files.pop()))
        for place, file in enumerate(files):
            if is_child:
                os.dup2(file, place)
            os.close(file)
        if is_child:
            requests.close()
            args, env, directory = json.loads(request)
            return args, env, directory


def run(args: list[str], env: dict[str, str], directory: str) -> None:
    """Be `python *args` from here on."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = io.FileIO(number, "wb" if number else "rb", closefd=False)
        there = getattr(sys, name)
        options = {"encoding": there.encoding, "errors": there.errors, "write_through": True}
        text = io.TextIOWrapper(file if number else io.BufferedReader(file), **options)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)
    main = sys.modules["__main__"] = ModuleType("__main__")
    added = [each for each in env.get("PYTHONPATH", "").split(":") if each not in sys.path]
    how, *sys.argv = args
    if how == "-m":
        sys.path[:1] = [directory, *added]
        RUNPY._run_module_as_main(args[1])
    elif how == "-c":
        sys.argv[0] = "-c"
        sys.path[:1] = ["", *added]
        exec(compile(args[1], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = args
        sys.path[:1] = [str(Path(how).resolve().parent), *added]
        main.__file__ = how
        exec(compile(Path(how).read_bytes(), how, "exec"), main.__dict__)


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    try:
        wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit()
    run(*wanted)
