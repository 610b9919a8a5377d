"""What is missing is said in one sentence, with how to get it."""

from __future__ import annotations

import stat
from importlib import metadata
from typing import Any

import pytest

import pgqpy.spark
from pgqpy.errors import MissingExtra
from pgqpy.spark import session


def installed(monkeypatch, **versions):
    def version(package):
        if package not in versions:
            raise metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(session, "version", version)


@pytest.fixture
def java(monkeypatch, tmp_path):
    """Put a java on the PATH that says what a test wants."""

    def put(said):
        program = tmp_path / "java"
        program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("JAVA_HOME", raising=False)

    return put


def test_all_is_here():
    session.check_packages()
    session.check_java()


def test_without_pyspark_register_says_what_to_install(monkeypatch):
    installed(monkeypatch)
    session: Any = None
    with pytest.raises(MissingExtra) as caught:
        pgqpy.spark.register(session)
    assert str(caught.value) == 'pyspark is needed: pip install "pgqpy[spark]"'


@pytest.mark.parametrize("missing", session.OTHERS)
def test_another_package_that_is_missing_is_named(monkeypatch, missing):
    others = dict.fromkeys(session.OTHERS, "1")
    del others[missing]
    installed(monkeypatch, pyspark="4.2.0", **others)
    with pytest.raises(MissingExtra) as caught:
        session.check_packages()
    assert str(caught.value) == f'{missing} is needed: pip install "pgqpy[spark]"'


@pytest.mark.parametrize("version", ["3.5.8", "4.0.0", "4.1.2"])
def test_a_pyspark_that_is_too_old_is_named(monkeypatch, version):
    installed(monkeypatch, pyspark=version, **dict.fromkeys(session.OTHERS, "1"))
    with pytest.raises(MissingExtra) as caught:
        session.check_packages()
    wanted = f'pyspark 4.2 or later is needed, here is {version}: pip install "pgqpy[spark]"'
    assert str(caught.value) == wanted


@pytest.mark.parametrize("version", ["4.2.0", "4.10.1", "5.0.0.dev1"])
def test_a_newer_pyspark_is_fine(monkeypatch, version):
    installed(monkeypatch, pyspark=version, **dict.fromkeys(session.OTHERS, "1"))
    session.check_packages()


def test_a_java_that_is_too_old_is_named(java):
    java('openjdk version "1.8.0_392"')
    with pytest.raises(MissingExtra) as caught:
        session.check_java()
    assert "Java 17 or later is needed" in str(caught.value)
    assert "is Java 8" in str(caught.value)
    assert "JAVA_HOME" in str(caught.value)


def test_something_else_called_java_is_not_taken_for_it(java):
    java("no such thing")
    with pytest.raises(MissingExtra, match="something else"):
        session.check_java()


@pytest.mark.parametrize("said", ['openjdk version "17.0.15" 2025', 'java version "21" 2023'])
def test_a_newer_java_is_fine(java, said):
    java(said)
    session.check_java()


def test_no_java_on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtra, match=r"there is none on the PATH.*apt-get install"):
        session.check_java()


def test_no_java_where_java_home_points(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingExtra, match="JAVA_HOME=/nowhere has none"):
        session.check_java()
