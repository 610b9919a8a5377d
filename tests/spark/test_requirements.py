"""What is missing is said in one sentence, with how to get it."""

from __future__ import annotations

from contextlib import nullcontext
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


@pytest.mark.parametrize(
    ("version", "enough"), [("3.5.8", False), ("4.1.2", False), ("4.2.0", True), ("5.0.dev1", True)]
)
def test_a_pyspark_that_is_too_old_is_named(monkeypatch, version, enough):
    installed(monkeypatch, pyspark=version, **dict.fromkeys(session.OTHERS, "1"))
    if enough:
        session.check_packages()
        return
    with pytest.raises(MissingExtra) as caught:
        session.check_packages()
    wanted = f'pyspark 4.2 or later is needed, here is {version}: pip install "pgqpy[spark]"'
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('openjdk version "1.8.0_392"', r"Java 17 or later is needed.*is Java 8.*JAVA_HOME"),
        ("no such thing", "something else"),
        ('openjdk version "17.0.15" 2025', ""),
        ('java version "21" 2023', ""),
    ],
)
def test_a_java_that_is_too_old_or_something_else_is_named(monkeypatch, tmp_path, said, words):
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtra, match=words) if words else nullcontext():
        session.check_java()


def test_where_no_java_was_found_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtra, match=r"there is none on the PATH.*apt-get install"):
        session.check_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingExtra, match="JAVA_HOME=/nowhere has none"):
        session.check_java()
