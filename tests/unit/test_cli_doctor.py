"""``understudy doctor`` as a command: its lines, its JSON, and the exit code of the worst finding."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.unit.doctor_builders import TOKEN, Ward
from tests.unit.test_cli_status import Handler, forbids, in_kubernetes, knows_flights, of_machine
from understudy.ha.job import Status


def finished(home: Path) -> Ward:
    """A job that needs no leader, so that nothing is watched."""

    async def make() -> Ward:
        ward = Ward(home)
        await ward.begin()
        await ward.jobs.end(TOKEN, Status.FINISHED, "the script ended", 20.0)
        return ward

    return asyncio.run(make())


def test_a_sound_job_is_0_and_every_line_names_its_severity_and_its_check(tmp_path: Path) -> None:
    finished(tmp_path)

    said = of_machine(tmp_path, "doctor", "--cluster-id", "c")

    assert (said.code, said.error) == (0, "")
    first, empty, *lines = said.out.splitlines()
    assert (first, empty) == ("cluster c   job j", "")
    assert {line.split()[0] for line in lines} == {"note", "ok"}
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines), "notes come first"
    assert {line.split()[1] for line in lines} >= {
        "documents",
        "lock",
        "claims",
        "checkpoints",
        "pyspark",
        "java",
        "ha-storage",
    }


def test_a_problem_comes_first_and_gives_the_exit_code(tmp_path: Path) -> None:
    ward = finished(tmp_path)
    (ward.checkpoint / "commits" / "7").unlink()
    (ward.checkpoint / "commits" / "8").unlink()

    said = of_machine(tmp_path, "doctor")

    assert (said.code, said.error) == (4, "")
    line = said.out.splitlines()[2]
    assert line.startswith("problem  checkpoints")
    assert f"run understudy resume --accept-checkpoint file:{ward.checkpoint}" in line


def test_json_holds_the_same(tmp_path: Path) -> None:
    ward = finished(tmp_path)
    ward.lose("c-j")

    said = of_machine(tmp_path, "doctor", "--json")

    body = json.loads(said.out)
    assert (said.code, body["exit_code"], body["cluster"], body["job"]) == (4, 4, "c", "j")
    worst = body["findings"][0]
    assert worst.keys() == {"check", "severity", "text", "remedy", "exit_code"}
    assert (worst["severity"], worst["check"], worst["exit_code"]) == ("problem", "documents", 4)


def test_ha_storage_is_looked_at_where_it_is_named(tmp_path: Path) -> None:
    finished(tmp_path)
    (tmp_path / "storage").mkdir()

    said = of_machine(tmp_path, "doctor", "--cluster-id", "c", "--ha-storage", str(tmp_path / "storage"))

    assert said.code == 0
    assert "warning  ha-storage" in said.out
    assert "run monday of job j is FINISHED, and its result is not kept here" in said.out
    assert of_machine(tmp_path, "doctor", "--cluster-id", "c", "--ha-storage", "gs://b/p").code == 2


def test_a_mistyped_id_is_told_what_there_is(tmp_path: Path) -> None:
    finished(tmp_path)
    said = of_machine(tmp_path, "doctor", "--cluster-id", "d")
    assert (said.code, said.out) == (2, "")
    assert f"--cluster-id: no cluster 'd' under {tmp_path}. There is c" in said.error


def test_before_any_replica_has_run_the_machine_is_looked_at(tmp_path: Path) -> None:
    said = of_machine(tmp_path, "doctor")
    assert said.code == 0
    assert f"note     documents   no cluster under {tmp_path}. Give the --ha-dir" in said.out
    assert "ok       java" in said.out


@pytest.mark.parametrize(
    ("handler", "cluster", "code", "words"),
    [
        (knows_flights, "flights", 0, "note     documents   flights-replicas: no replica has ever run"),
        (
            forbids,
            "flights",
            7,
            "problem  documents   flights-replicas: this service account (jobs/watcher) may not get",
        ),
        (None, "flights", 8, "problem  api-server  flights-replicas: the API server does not answer"),
        (None, "", 8, "problem  api-server  jobs: the API server does not answer"),
    ],
    ids=["never ran", "forbidden", "down", "down, no id"],
)
def test_from_a_laptop(tmp_path: Path, handler: Handler | None, cluster: str, code: int, words: str) -> None:
    said = in_kubernetes(tmp_path, handler, "doctor", *(("--cluster-id", cluster) if cluster else ()))

    assert said.code == code, said
    assert words in said.out
    assert said.error == ""
    assert "note     pyspark     Java, PySpark and the fence are the pods'" in said.out


def test_where_ids_may_not_be_listed_one_has_to_be_named(tmp_path: Path) -> None:
    said = in_kubernetes(tmp_path, forbids, "doctor")
    assert (said.code, said.out) == (2, "")
    assert "--cluster-id: which cluster ids there are may not be listed: this service account" in said.error
    assert said.error.endswith(". Name one\n")


def test_from_a_laptop_a_mistyped_id_is_told_what_there_is(tmp_path: Path) -> None:
    said = in_kubernetes(tmp_path, knows_flights, "doctor", "--cluster-id", "flihgts")
    assert (said.code, said.out) == (2, "")
    assert "no cluster 'flihgts' in namespace jobs. There is flights" in said.error
