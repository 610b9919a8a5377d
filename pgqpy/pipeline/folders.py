"""Folders and files on any file system that Spark knows."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from uuid import uuid4

SHOWN_FOLDERS = 10  # folders in an error message


def join(root: str, name: str) -> str:
    """Return the path of a folder with this name."""
    return f"{root.rstrip('/')}/{name}"


def remove(spark: Any, path: str) -> None:
    """Remove a folder, if it exists."""
    files, hadoop_path = _open(spark, path)
    files.delete(hadoop_path, True)  # noqa: FBT003  # recursively


def find_later(spark: Any, root: str, name: str) -> list[str]:
    """Return the folders of the same query's later micro-batches, in their order.

    `name` ends with the query's id and the number of the micro-batch, as in `…q3f2a91c0-00000012`.
    """
    files, hadoop_path = _open(spark, root)
    if not files.exists(hadoop_path):
        return []
    query, _, number = name.rpartition("-")
    # Java filters them: asking it for each name of a large lake would take minutes.
    later = spark._jvm.org.apache.hadoop.fs.GlobFilter(f"{query}-{_beyond(number)}")  # noqa: SLF001  # PySpark has no other way
    names = [found.getPath().getName() for found in files.listStatus(hadoop_path, later)]
    return [join(root, each) for each in sorted(names, key=lambda each: (len(each), each))]


def read_text(spark: Any, path: str) -> str | None:
    """Return the text of a file; None if there is none."""
    files, hadoop_path = _open(spark, path)
    if not files.exists(hadoop_path):
        return None
    with closing(files.open(hadoop_path)) as stream:
        return bytes(stream.readAllBytes()).decode()


def write_text(spark: Any, path: str, text: str) -> None:
    """Write a file as a whole or not at all. Where renames replace no file, an older one stays."""
    shared, hadoop_path = _open(spark, path)
    draft = hadoop_path.suffix(f".{uuid4().hex}")
    # An instance without checksums: with them nobody could read a file that a user has edited.
    with closing(shared.newInstance(hadoop_path.toUri(), shared.getConf())) as files:
        files.setWriteChecksum(False)
        with closing(files.create(draft)) as stream:
            stream.write(bytearray(text.encode()))
        files.rename(draft, hadoop_path)
        files.delete(draft, False)  # noqa: FBT003  # if it is there still; it is no folder


def _beyond(number: str) -> str:
    """Return a glob pattern of the numbers beyond this one, with as many digits or more."""
    patterns = ["[0-9]" * len(number) + "[0-9]*"]
    for place, digit in enumerate(number):
        if digit != "9":
            rest = "[0-9]" * (len(number) - place - 1)
            patterns.append(f"{number[:place]}[{int(digit) + 1}-9]{rest}")
    return f"{{{','.join(patterns)}}}"


def list_some(paths: list[str]) -> str:
    """Return the paths as a text: all of them, or the first ones, the last and their number."""
    if len(paths) <= SHOWN_FOLDERS:
        return ", ".join(paths)
    return f"{', '.join(paths[: SHOWN_FOLDERS - 1])}, … {paths[-1]} ({len(paths)} folders)"


def _open(spark: Any, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as Hadoop's Path."""
    hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001  # PySpark has no other way
    return hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration()), hadoop_path  # noqa: SLF001  # as above
