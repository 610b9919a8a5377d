"""Files of an archive in a local folder or on any file system of fsspec."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import fsspec
import psycopg
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from pgqpy.archive.errors import ArchiveDamaged, StoreFailed
from pgqpy.errors import InvalidArgument, MissingExtra, PgqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK = 1024 * 1024  # bytes
# Object stores show a file when all of it is there. Their rename is a copy.
PUT_IS_ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss"})

NOT_A_URL = (
    "the URL is not valid: percent-encode special characters of a user and password, or better "
    "leave both out: the store's own variables and files hold them"
)


@contextmanager
def _errors_as_store_failed() -> Iterator[None]:
    """Raise StoreFailed for the errors of a store's library: each library has its own classes."""
    try:
        yield
    except (PgqError, psycopg.Error):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise  # it names the file
        what = " ".join(str(error).split()) or "no reason given"
        raise StoreFailed(
            f"the store of the archive failed: {type(error).__name__}: {what}"
        ) from error


def _remedy(protocol: str) -> str:
    """Say which package the protocol of a URL needs; '' if fsspec itself knows it, or nobody."""
    module = known_implementations.get(protocol, {"class": "fsspec"})["class"].partition(".")[0]
    if module == "fsspec":
        return ""
    return f"{module} is needed for {protocol}://: pip install {module}"


class Store:
    """The folder of one location. Paths are relative to it, with `/`."""

    @_errors_as_store_failed()
    def __init__(self, location: str) -> None:
        """Open a folder, by its path, or by a URL whose protocol fsspec knows.

        Raises InvalidArgument for an unknown protocol, MissingExtra if its package is missing.
        """
        protocol = location.partition("://")[0].rpartition("::")[2]
        try:
            self._files, root = fsspec.core.url_to_fs(location)
        except ImportError as error:
            raise MissingExtra(_remedy(protocol) or f"{error}") from error
        except ValueError as error:  # its text may hold a part of a password
            what = NOT_A_URL if protocol in known_implementations else f"{error}"
            raise InvalidArgument(what, parameter="location") from error
        self._root = root.rstrip("/")
        self.is_local = type(self._files) is LocalFileSystem
        names = self._files.protocol
        protocols = {names} if isinstance(names, str) else set(names)
        self._puts_atomically = bool(protocols & PUT_IS_ATOMIC)

    @_errors_as_store_failed()
    def list(self, folder: str = "") -> list[tuple[str, int, bool]]:
        """Return the name, the bytes, and whether it is a folder, of all in a folder; [] if none.

        The order is that of the file system.
        """
        self._files.invalidate_cache()  # other processes write too
        path = self._path(folder)
        try:
            found = self._files.ls(path, detail=True)
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise InvalidArgument(f"{path} is no folder", parameter="location") from error
        listed = [(each["name"], each["size"] or 0, each["type"] == "directory") for each in found]
        if any(name == path and size for name, size, _ in listed):
            raise InvalidArgument(f"{path} is no folder", parameter="location")
        return [
            (name.rstrip("/").rpartition("/")[2], size, is_folder)
            for name, size, is_folder in listed
            if name.rstrip("/") != path  # object stores may have a marker of the folder itself
        ]

    @_errors_as_store_failed()
    def open(self, path: str) -> Any:
        """Open a file to read bytes, at any place."""
        return self._files.open(self._path(path), "rb")

    def spool(self, folder: str) -> IO[bytes]:
        """Open a temporary file for what goes into a folder. It disappears with the process.

        It is on the disk of a local archive, else in TMPDIR.
        """
        if not self.is_local:
            return tempfile.TemporaryFile()
        path = Path(self._path(folder))
        _make_folder(path)
        return tempfile.TemporaryFile(dir=path)

    @_errors_as_store_failed()
    def put(self, spool: IO[bytes], path: str, check: Callable[[], None]) -> None:
        """Store a spool under a path, all of it or nothing; an older file there is replaced.

        `check` is called before the file becomes visible, and may raise. The file is read back:
        ArchiveDamaged if it differs.
        """
        digest = _digest(spool)
        spool.seek(0)
        final = self._path(path)
        if self.is_local:
            self._put_local(spool, Path(final), check)
        elif self._puts_atomically:
            check()
            self._copy(spool, final)
        else:
            self._put_and_rename(spool, final, check)
        self._files.invalidate_cache()
        with self._files.open(final, "rb") as stored:
            if _digest(stored) != digest:
                raise ArchiveDamaged(
                    f"{path} was not stored as it was written: the disk or the store is not "
                    "reliable, and the consumer stays where it is",
                    path=path,
                )

    @_errors_as_store_failed()
    def exists(self, path: str = "") -> bool:
        """Say whether there is a file; without a path: the folder, or a file in it."""
        self._files.invalidate_cache()
        return bool(self._files.exists(self._path(path)))

    def touch(self, path: str) -> None:
        """Make a file without content."""
        with self.spool(path.rpartition("/")[0]) as spool:
            self.put(spool, path, lambda: None)

    @_errors_as_store_failed()
    def remove(self, path: str) -> None:
        """Remove a file."""
        self._files.rm_file(self._path(path))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _copy(self, spool: IO[bytes], path: str) -> None:
        with self._files.open(path, "wb") as target:
            shutil.copyfileobj(spool, target, CHUNK)

    def _put_and_rename(self, spool: IO[bytes], final: str, check: Callable[[], None]) -> None:
        self._files.makedirs(final.rpartition("/")[0], exist_ok=True)
        temporary = _temporary(final)
        try:
            self._copy(spool, temporary)
            check()
            if self._files.exists(final):
                self._files.rm_file(final)
            self._files.mv(temporary, final)
        except Exception:
            with suppress(Exception):
                self._files.rm_file(temporary)
            raise

    def _put_local(self, spool: IO[bytes], final: Path, check: Callable[[], None]) -> None:
        # The position moves next, and the server would not give the events again: so the file must
        # be on disk, and its name too. Only its owner may read it: in the queue, events need the
        # role pgq_reader.
        temporary = Path(_temporary(str(final)))
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(number, "wb") as target:  # noqa: PTH123  # a number, no path
                shutil.copyfileobj(spool, target, CHUNK)
                target.flush()
                os.fsync(target.fileno())
            check()
            temporary.replace(final)
        except Exception:  # the disk may be full
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(final.parent)


def _temporary(path: str) -> str:
    return f"{path}.{secrets.token_hex(4)}.tmp"


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
