"""Standalone mode: the executors belong to a Spark master, and so live in other processes than the driver that rehearses."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from testkit import s3
from testkit.command import confs
from testkit.ports import ports
from tests.spark.replicas import SCRIPT, Replicas, everything_once
from understudy.environment import find_java

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


@contextmanager
def daemon(home: Path, *command: str) -> Iterator[None]:
    """One of Spark's own, in a process group of its own: a worker's executors go with it."""
    spark = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (home / f"{command[0].rpartition('.')[2]}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(spark / "bin" / "spark-class"), *command],
            cwd=home,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """With one worker, which has room for the executors of two drivers."""
    deploy, here = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port", "0")
    with ports(1) as (port,):
        url = f"spark://127.0.0.1:{port}"
        with (
            daemon(tmp_path, f"{deploy}.master.Master", *here, "--port", str(port)),
            daemon(tmp_path, f"{deploy}.worker.Worker", *here, "--cores", "4", "--memory", "4g", url),
        ):
            yield url


def test_a_standby_rehearses_on_executors_of_its_own_and_takes_over(tmp_path: Path, master: str) -> None:
    home = tmp_path / "job"
    home.mkdir()
    classes = f"{s3.s3a_jars()}/*"
    settings = {
        "spark.cores.max": "1",
        "spark.executor.memory": "512m",
        "spark.driver.extraClassPath": classes,
        "spark.executor.extraClassPath": classes,
    }
    with s3.server(tmp_path) as port:
        settings |= s3.spark_settings(port)
        options = ["--scratch", f"s3a://{s3.BUCKET}/scratch", *confs(settings)]
        script = SCRIPT.replace('"checkpoint"', f'"s3a://{s3.BUCKET}/checkpoint"')
        replicas = Replicas(home, script)
        try:
            replicas.start(*options, master=master)
            replicas.start(*options, master=master)
            replicas.feed()
            replicas.wait_for("first rows", lambda: everything_once(replicas))
            replicas.wait_for("a standby that has rehearsed the live checkpoint", lambda: "live" in how(replicas))
            first, epoch = replicas.leader(), replicas.status()["epoch"]
            os.kill(first, signal.SIGKILL)
            for _ in range(5):
                replicas.feed()
            replicas.wait_for("rows after SIGKILL", lambda: everything_once(replicas))
            assert replicas.status()["epoch"] > epoch
            assert replicas.leader() != first
            assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))
        finally:
            replicas.stop()


def how(replicas: Replicas) -> set[str]:
    return {each["how"] for each in replicas.status()["replicas"] if each["rehearsed"]}
