"""How the tests start Java: quickly, for processes that live for a minute.

The archive of Spark's classes is made by tools/spark_archive.py; Java starts without it too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"
OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off"


def start_java_quickly() -> None:
    """Hand the options to every driver, master and worker that this process starts."""
    options = OPTIONS if ARCHIVE.exists() else OPTIONS.partition(" -XX:Shared")[0]
    os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_DAEMON_JAVA_OPTS"] = options
