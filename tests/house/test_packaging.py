"""What is built contains the whole product and nothing else, and works where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

import pgqpy
from tests.support.tree import ROOT, files

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = {
    "pgqpy": "pgqpy",
    "ticker": "pgqpy/ticker",
    "consumers": "pgqpy/consumers",
    "schema": "pgqpy/schema",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    _python("-m", "build", "--no-isolation", "--outdir", str(source / "dist"), cwd=source)
    return source / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of a fresh environment in which only the wheel is installed."""
    home = tmp_path_factory.mktemp("installed")
    _python("-m", "venv", "--without-pip", str(home), cwd=home)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    _python(*pip, str(wheel), cwd=home)
    return python


def test_the_wheel_holds_the_whole_product_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {str(name) for name in _product()}


def test_the_package_says_its_version_and_who_made_it() -> None:
    told = metadata("pgqpy")
    assert told["Version"] == pgqpy.__version__
    assert told["Author"]
    assert told.get_all("Project-URL")
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        getattr(pgqpy, "version")  # noqa: B009  # mypy knows that there is none


def test_the_wheel_carries_the_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_the_sdist_holds_every_source_at_its_own_place(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    wanted = {name.as_posix() for folder in FOLDERS for name in _shipped(folder)}
    assert wanted <= names
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_all_is_imported_from_where_it_was_installed_and_bare_names_are_no_modules(
    installed: Path,
) -> None:
    code = """if True:
        import importlib.resources, importlib.util, pathlib, sys
        import pgqpy, pgqpy.cli, pgqpy.consumers, pgqpy.ticker
        for module in (pgqpy, pgqpy.cli, pgqpy.consumers, pgqpy.ticker):
            assert pathlib.Path(module.__file__).is_relative_to(sys.prefix), module
        assert (importlib.resources.files("pgqpy") / "schema" / "install.sql").is_file()
        assert not any(map(importlib.util.find_spec, ("ticker", "consumers")))
        pgqpy.cli.main(["--help"])
    """
    assert "Usage: pgqpy" in _run(installed, "-c", code)
    assert (installed.parent / "pgqpy").exists()


def _product() -> Iterator[PurePosixPath]:
    yield PurePosixPath("pgqpy_pytest.py")
    for folder, place in FOLDERS.items():
        for name in _shipped(folder):
            yield PurePosixPath(place) / name.relative_to(folder)


def _shipped(folder: str) -> list[Path]:
    return [name for name in files(folder) if not (ROOT / name).is_symlink()]


def _run(python: Path, *args: str) -> str:
    # Dependencies come from this environment; a path entry does not bring its editable install.
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    environment = {"PYTHONPATH": ":".join(sorted(paths)), "PATH": "/usr/bin:/bin"}
    return _check([str(python), *args], cwd=python.parent, env=environment)


def _python(*args: str, cwd: Path) -> str:
    return _check([sys.executable, *args], cwd=cwd, env=None)


def _check(command: list[str], *, cwd: Path, env: dict[str, str] | None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
