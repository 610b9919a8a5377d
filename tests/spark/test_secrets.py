"""The database's password shows nowhere: not in arguments, plans, pages or logs."""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from urllib.request import urlopen

import psutil

from pgqpy.spark import register
from tests.spark.feed import as_uri
from tests.spark.harness_cluster import SessionProcess
from tests.spark.test_pipeline_run import COMMAND, OPTIONS, data

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.feed import Feed

CONFIGURED = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.redaction.regex": "shoe",
    "spark.sql.redaction.options.regex": "hat",
    "spark.shoe": "laces",
}
PAGES = ("environment", "sql?planDescription=true", "jobs", "stages?details=true", "allexecutors")


def arguments(process: SessionProcess) -> list[str]:
    """Return the command lines of all its processes."""
    found = []
    for member in process.members():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found.append(" ".join(member.cmdline()))
    return found


def pages(port: int) -> str:
    """Return what Spark's web interface tells of the application."""
    place = f"http://127.0.0.1:{port}/api/v1/applications"
    with urlopen(place) as answer:
        (application,) = json.load(answer)
    texts = []
    for page in PAGES:
        with urlopen(f"{place}/{application['id']}/{page}") as answer:
            texts.append(answer.read().decode())
    return "\n".join(texts)


def test_a_password_is_in_no_argument_page_or_log(feed: Feed, tmp_path: Path) -> None:
    dsn = as_uri(feed.dsn, "open sesame")
    secret = dsn.partition("@")[0].rpartition(":")[2]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    logs = tmp_path / "logs"
    logs.mkdir()
    settings = {**CONFIGURED, "spark.eventLog.dir": logs.as_uri(), "spark.ui.port": str(port)}
    submit = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    environment = {
        "PGQPY_DSN": dsn,
        "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    options = (*OPTIONS, "--to", str(tmp_path / "lake"), "--every", "200ms")
    feed.insert(*data([1]))
    with closing(SessionProcess(*COMMAND, *options, env=environment)) as process:
        process.wait_for_output("events 1 ")
        shown = arguments(process)
        assert any("SparkSubmit" in line for line in shown)
        assert [line for line in shown if secret in line] == []
        told = pages(port)
        output = process.output()
    logged = "".join(path.read_text() for path in logs.rglob("*") if path.is_file())
    kept = "".join(path.read_text() for path in (tmp_path / "lake").rglob("_checkpoint/*/[0-9]*"))
    assert "laces" not in told
    assert '"spark.shoe"' in told
    for text in (told, logged, kept, output):
        assert text
        assert secret not in text


def test_plans_show_no_dsn_and_hide_what_the_user_hides(spark: SparkSession, feed: Feed) -> None:
    hidden = "spark.sql.redaction.options.regex"
    before = str(spark.conf.get(hidden))
    try:
        spark.conf.set(hidden, "consumer")
        for _ in range(2):
            register(spark)
        uri = as_uri(feed.dsn, "geheim")
        options = feed.options(dsn=uri, consumer="beer")
        plan = spark.readStream.format("pgq").options(**options).load()._jdf.queryExecution()
        assert "queue=orders" in plan.toString()
        assert uri not in plan.toString()
        assert "beer" not in plan.toString()
        assert str(spark.conf.get(hidden)).count("dsn") == 1
    finally:
        spark.conf.set(hidden, before)
