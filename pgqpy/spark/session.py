"""Registration of format("pgq") with a session, and the checks of what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pgqpy.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK = (4, 2)  # the first with read limits and Trigger.AvailableNow for Python sources
OTHERS = ("pyarrow", "numpy", "adbc-driver-manager", "adbc-driver-postgresql")
JAVA = 17  # the lowest that Spark 4 supports
EXTRA = 'pip install "pgqpy[spark]"'


def check_packages() -> None:
    """Raise MissingExtra unless pyspark (new enough) and what we use beside it are installed."""
    found = _version("pyspark")
    if found < PYSPARK:
        wanted, is_here = (".".join(map(str, numbers)) for numbers in (PYSPARK, found[:3]))
        raise MissingExtra(f"pyspark {wanted} or later is needed, here is {is_here}: {EXTRA}")
    for package in OTHERS:
        _version(package)


def check_java() -> None:
    """Raise MissingExtra unless Java 17 or later is installed."""
    how = f"install one (Debian, Ubuntu: apt-get install openjdk-{JAVA}-jre-headless)"
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=os.path.join(home, "bin") if home else None)  # noqa: PTH118  # a search path is text
    if program is None:
        where = f"JAVA_HOME={home} has none" if home else "there is none on the PATH"
        raise MissingExtra(f"Java {JAVA} or later is needed, {where}: {how} or set JAVA_HOME")
    found = java_version(_ask(program))
    if found is None or found < JAVA:
        is_here = f"Java {found}" if found else "something else"
        raise MissingExtra(
            f"Java {JAVA} or later is needed, {program} is {is_here}: {how} and set JAVA_HOME"
        )


def check_classic(master: str | None = None) -> None:
    """Raise InvalidArgument if the environment or the master selects Spark Connect."""
    asks = [name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ]
    if (master or "").startswith("sc://"):
        asks.append(f"--master {master}")
    if asks:
        raise InvalidArgument(
            f"the pipeline needs a classic Spark session, and {asks[0]} asks for Spark Connect: "
            "leave it out, and name a master (local[*], spark://…) or run it by spark-submit"
        )


def java_version(said: str) -> int | None:
    """Parse the output of `java -version`: 8 for "1.8.0_392", 17 for "17.0.15"; else None."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _ask(program: str) -> str:
    done = subprocess.run([program, "-version"], check=False, capture_output=True, text=True)
    return done.stderr + done.stdout


def _version(package: str) -> tuple[int, ...]:
    try:
        text = version(package)
    except PackageNotFoundError:
        raise MissingExtra(f"{package} is needed: {EXTRA}") from None
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"  # plans hide the values of these options
OURS = "(?i:^dsn$)"


def register(spark: SparkSession) -> None:
    """Register `format("pgq")` with a session. Calling it twice is safe.

    From then on the session's plans hide the value of the option `dsn`.

    Raises:
        MissingExtra: pyspark is too old, or a package of the extra `spark` is missing.

        pgqpy.spark.register(spark)
        spark.readStream.format("pgq").option("queue", "orders").option("consumer", "lake").load()
    """
    check_packages()
    from pgqpy.spark.data_source import PgqDataSource  # noqa: PLC0415  # pyspark is installed: checked

    spark.dataSource.register(PgqDataSource)
    hidden = spark.conf.get(HIDDEN_OPTIONS) or ""
    if OURS not in hidden:
        spark.conf.set(HIDDEN_OPTIONS, f"(?:{hidden})|{OURS}" if hidden else OURS)
