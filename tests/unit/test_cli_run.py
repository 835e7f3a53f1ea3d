"""What ``understudy run`` makes of its words."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from understudy.cli.run import _derived_id, _run, split
from understudy.documents.directory import nothing_left_of
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import ReplicaStopped, SettingsError
from understudy.ha.replicas import ReplicaStore
from understudy.supervisor.supervisor import Supervisor
from understudy.supervisor.workload import AfterExit


def test_submit_options_the_script_and_its_arguments_are_told_apart() -> None:
    words = "--conf a=b -c c=d --master=local[2] --verbose --jars x.jar job.py --conf theirs -v".split()
    assert split(words) == (
        ["--conf", "a=b", "-c", "c=d", "--master=local[2]", "--verbose", "--jars", "x.jar"],
        "job.py",
        ["--conf", "theirs", "-v"],
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cnf", "a=b", "job.py"], "--cnf: neither an option"),
        (["--remote", "sc://elsewhere", "job.py"], "--remote: a Spark Connect session has its driver elsewhere"),
        (["--conf"], "--conf: no value"),
        (["--conf", "a=b"], "no script is given"),
        ([], "no script is given"),
    ],
)
def test_words_that_are_nothing_are_refused_by_name(words: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        split(words)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.py"], 6, "missing.py: no such script"),
        (["--cluster-id", "Not_A_Label", "job.py"], 2, "--cluster-id: 'Not_A_Label' is not a DNS label"),
        (["--profile", "quick", "job.py"], 2, "--profile: unknown profile 'quick'"),
        (["--timing", "lease=4", "--profile", "fast", "job.py"], 2, "timings.lease: (retry 0.7 + renew 3.0"),
        (["--deploy-mode", "cluster", "job.py"], 2, "--deploy-mode: the deploy mode is cluster"),
        (
            ["--conf", "spark.submit.deployMode=cluster", "job.py"],
            2,
            "spark.submit.deployMode: the deploy mode is cluster",
        ),
        (["--timing", "lease", "job.py"], 2, "'lease' is not name=value"),
        (["--delete-result-on-commit", "job.py"], 2, "--delete-result-on-commit: there is no HA storage"),
        (["--rehearse", "loudly", "job.py"], 2, "--rehearse: unknown mode"),
        (["--rehearse-every", "0", "job.py"], 2, "--rehearse-every: 0.0 s is not above 0"),
        (["--ha-dir", "/proc/understudy", "job.py"], 2, "/proc/understudy"),
        (["--ha-address", "elsewhere", "job.py"], 2, "--ha-address: the services of one machine have none"),
        (["--ha-storage", "ftp://elsewhere/blobs", "job.py"], 2, "'ftp://elsewhere/blobs' is no place for blobs"),
    ],
)
def test_bad_input_is_one_line_with_its_field_and_a_documented_exit_code(
    tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    (tmp_path / "job.py").write_text("pass\n")
    base = [] if "--ha-dir" in words else ["--ha-dir", str(tmp_path / "ha")]
    ended = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "run", *base, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "ha").exists()


@pytest.mark.parametrize("name", ["报表.py", "清洗.py", "日报-2.py", "___.py", f"{'x' * 41}.py"])
def test_a_script_whose_name_would_be_lost_in_part_needs_a_cluster_id(tmp_path: Path, name: str) -> None:
    """Two of them would have one id, and the second one would be taken for a job that has FINISHED: never run, with exit code 0."""
    (tmp_path / name).write_text("pass\n")
    ended = subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "run", "--ha-dir", str(tmp_path / "ha"), name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2, ended.stderr
    assert f"--cluster-id: no id can be made of the script's name {name!r}" in ended.stderr
    assert not (tmp_path / "ha").exists()


def test_a_cluster_id_is_the_scripts_name_as_a_dns_label() -> None:
    assert [_derived_id(each) for each in ("/app/Flights_2.py", "a b.py", f"{'x' * 40}.py")] == [
        "flights-2",
        "a-b",
        "x" * 40,
    ]


def run(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "job.py").write_text("pass\n")
    return subprocess.run(
        [sys.executable, "-m", "understudy.cli.main", "run", "--ha-dir", str(tmp_path / "ha"), *words, "job.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_replica_whose_probes_cannot_be_served_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run(tmp_path, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 3, ended.stderr
    assert "--listen: cannot listen on" in ended.stderr
    assert not (tmp_path / "ha").exists()


def test_after_a_refusal_empty_directories_go_that_were_not_there_before(tmp_path: Path) -> None:
    names = {f"d{number}" for number in range(5)}

    def refuse(path: Path, *holding: str) -> None:
        with suppress(SettingsError), nothing_left_of(path):
            for each in names:
                (path / each).mkdir(parents=True, exist_ok=True)
            for each in holding:
                (path / each).write_text("of a replica")
            raise SettingsError("refused")

    refuse(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    refuse(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    for holding in ("file", "d0/file", "d4/file"):
        home = tmp_path / "a" / holding.replace("/", "-")
        refuse(home, holding)
        assert names <= {each.name for each in home.iterdir()}, "nothing goes where there is a file"
    (tmp_path / "d").mkdir()
    refuse(tmp_path / "d")
    assert {each.name for each in (tmp_path / "d").iterdir()} == names, "what was there before is not ours to tidy"


def test_a_cluster_id_with_another_job_id_is_refused(tmp_path: Path) -> None:
    async def bind() -> None:
        documents = FilesystemDocumentStore(tmp_path / "ha" / "flights" / "documents", 5.0)
        await ReplicaStore(documents, "flights-replicas").join("flights")

    asyncio.run(bind())
    ended = run(tmp_path, "--cluster-id", "flights", "--job-id", "trains")
    assert ended.returncode == 5, ended.stderr
    assert "--cluster-id: this cluster id belongs to job 'flights', not 'trains'" in ended.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cluster-id", "trains"], 2, "--cluster-id: no cluster 'trains' under"),
        (["--cluster-id", "flights"], 9, "--cluster-id: no replica of cluster 'flights' has ever run below"),
        (
            ["--cluster-id", "flights", "--namespace", "default"],
            2,
            "--ha-dir: a directory of this machine, and a Kubernetes",
        ),
    ],
)
def test_a_job_that_is_not_there_is_not_resumed(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    (tmp_path / "flights" / "documents").mkdir(parents=True)
    command = [sys.executable, "-m", "understudy.cli.main", "resume", "--ha-dir", str(tmp_path), *words]
    in_a_pod = {**os.environ, "KUBERNETES_SERVICE_HOST": "192.0.2.1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=in_a_pod)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("job", ["lock", "replicas"])
def test_a_job_id_that_would_make_one_document_of_two_is_refused(tmp_path: Path, job: str) -> None:
    ended = run(tmp_path, "--cluster-id", "flights", "--job-id", job)
    assert ended.returncode == 2, ended.stderr
    assert f"--job-id: flights-{job} is the name of another document" in ended.stderr
    assert not (tmp_path / "ha").exists()


def test_a_replica_in_a_pod_that_does_not_say_who_it_is_is_told_what_to_set(tmp_path: Path) -> None:
    ended = run(tmp_path, "--lock", "lease", UNDERSTUDY_POD_UID="")
    assert ended.returncode == 2, ended.stderr
    assert "UNDERSTUDY_POD_UID: not set. Set it in the pod from the downward API" in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lock", "spinlock"], "--lock: unknown lock 'spinlock'"),
        (["--lock", "lease", "--timing", "lease=15.5"], "--timing lease: 15.5 s cannot be written"),
        (["--listen", "8080"], "--listen: '8080' is not host:port"),
    ],
)
def test_what_only_makes_sense_in_a_cluster_is_checked_as_well(tmp_path: Path, words: list[str], said: str) -> None:
    ended = run(tmp_path, *words, UNDERSTUDY_POD_UID="1", UNDERSTUDY_POD_NAME="a")
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr


@dataclass
class Stopped:
    """A replica whose run is over: it was told to stop."""

    successor: str | None
    told_to_stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        self.told_to_stop.set()
        return 0


@pytest.mark.parametrize(
    ("successor", "after", "lingers"),
    [
        ("next", AfterExit.RESTART, True),
        ("next", AfterExit.COUNTED, True),
        ("next", AfterExit.NOTHING, False),
        (None, AfterExit.RESTART, False),
        (None, AfterExit.COUNTED, False),
    ],
    ids=["handed over in a pod", "in a Job's pod", "elsewhere", "no successor", "no successor in a Job's pod"],
)
def test_a_leaders_pod_outlives_its_handover(
    monkeypatch: pytest.MonkeyPatch, successor: str | None, after: AfterExit, *, lingers: bool
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(ReplicaStopped) if after is AfterExit.COUNTED else nullcontext():
        assert asyncio.run(_run(cast(Supervisor, Stopped(successor)), after)) == 0
    assert bool(slept) is lingers


@dataclass
class Over:
    """A replica whose run has ended by itself."""

    code: int
    successor: None = None
    told_to_stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        return self.code


@pytest.mark.parametrize("code", [0, 1])
def test_in_a_jobs_pod_a_replica_ends_with_its_run_and_with_its_result(code: int) -> None:
    async def ended() -> int:
        return await asyncio.wait_for(_run(cast(Supervisor, Over(code)), AfterExit.COUNTED), 10)

    assert asyncio.run(ended()) == code


def test_in_a_deployments_pod_a_replica_of_a_finished_run_stays() -> None:
    async def stays() -> None:
        over = Over(0)
        running = asyncio.create_task(_run(cast(Supervisor, over), AfterExit.RESTART))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not running.done()
        over.told_to_stop.set()
        assert await running == 0

    asyncio.run(stays())
