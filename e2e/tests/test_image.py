"""The product's image as a cluster with strict rules runs it, and without a network: as its own user, and as one that it has never heard of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from testcontainers.core.container import DockerContainer

from e2e.cluster.layout import REPOSITORY
from e2e.harness import images
from e2e.harness.containers import need_image, strict
from testkit.s3 import Missing

#: Runs in the image, and checks there what it must still be able to do after any cuts.
SMOKE = REPOSITORY / "hooks" / "image" / "smoke.py"

EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "256m",
    "SPARK_APPLICATION_ID": "check",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "check-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


#: The image's own user, and one that it has never heard of.
USERS = ("10001:10001", "23456")


@pytest.fixture(autouse=True, scope="module")
def _image() -> None:
    try:
        need_image(images.UNDERSTUDY)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def jobs(_image: None) -> Iterator[dict[str, DockerContainer]]:
    """By user; both run at once, since one of them mostly waits for its JVM."""
    command = "run --restart-attempts 0 smoke.py"
    with ExitStack() as running:
        yield {
            user: running.enter_context(strict(command, user=user, files={SMOKE: "/app/smoke.py"})) for user in USERS
        }


@pytest.mark.parametrize("user", USERS)
def test_a_job_finds_all_that_the_image_promises(jobs: dict[str, DockerContainer], user: str) -> None:
    status = jobs[user].wait()
    printed, logged = (stream.decode() for stream in jobs[user].get_logs())
    assert status == 0, printed + logged
    passed = [line.partition(":")[0] for line in printed.splitlines()]
    assert {
        "files of every kind",
        "a stream with state",
        "python workers",
        "names",
        "the ui",
        "nothing unpacked",
    } <= set(passed)


@pytest.mark.parametrize("user", USERS)
def test_an_executor_is_sparks_own_and_looks_for_its_driver(user: str) -> None:
    with strict("executor", user=user, environment=EXECUTOR) as container:
        container.wait()
        logged = b"".join(container.get_logs()).decode()
    # there is no driver to find: what counts is that Spark's executor says so
    assert "at org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in logged
