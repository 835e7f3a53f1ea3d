"""What a driver is told of executors that are pods; which of them a replica asks the API server to delete, and when."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.answering import served
from tests.unit.test_messages import spec
from understudy.documents.api_server import ApiServer
from understudy.driver.jvm import submit_arguments
from understudy.events import Event, Log
from understudy.submit import settings_of
from understudy.supervisor.native import Executors, Native

OF = "understudy.dev/executor-of=flights"


class Asked:
    """``answers`` with a status; ``selectors``: what it was asked to delete."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.selectors, self.said = status, list[str](), list[Event]()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/tests/pods")
        self.selectors.append(request.query["labelSelector"])
        return web.json_response({"items": [{"metadata": {"name": "exec-1"}}]}, status=self.status)

    def by(self, ask: Callable[[Native, Log], Awaitable[None]]) -> Asked:
        log = Log(listeners=[self.said.append])

        async def asks(api: ApiServer) -> None:
            await ask(Native(api, "flights", "me", "pod", "10.0.0.1", "image", 1), log)

        asyncio.run(served(self.answer, asks))
        return self


def test_those_of_drivers_that_are_gone_go_and_those_of_living_replicas_stay() -> None:
    asked = Asked().by(lambda native, log: native.clear(["b", "a"], log))
    assert asked.selectors == [f"{OF},understudy.dev/holder notin (a,b,me)"]
    asked = Asked().by(lambda native, log: native.clear(["b", "a"], log, own=True))
    assert asked.selectors == [f"{OF},understudy.dev/holder notin (a,b)"]


def test_those_of_its_own_earlier_drivers_go_and_nothing_else() -> None:
    asked = Asked().by(lambda native, log: native.clear_own(log))
    assert asked.selectors == [f"{OF},understudy.dev/holder=me"]
    (said,) = asked.said
    assert (said.event, said.facts["pods"]) == ("executors-deleted", ["exec-1"])


@pytest.mark.parametrize("status", [403, 500])
def test_a_server_that_refuses_stops_nothing(status: int) -> None:
    asked = Asked(status).by(lambda native, log: native.clear_own(log))
    assert [each.event for each in asked.said] == ["executors-left"]


def arguments(*submit: str, script: str = "") -> tuple[int, dict[str, str]]:
    """How many executors the driver asks for, and the settings among the arguments of its JVM; of two of one name, the last."""
    found: list[Executors | None] = []

    async def asks(api: ApiServer) -> None:
        native = Native.of(submit, api, "flights", "me", "pod", "10.0.0.1", "ours", 1)
        found.append(None if native is None else native.executors(submit))

    asyncio.run(served(Asked().answer, asks))
    (told,) = found
    assert told is not None
    one = replace(spec(), submit=list(told.submit), defaults=told.defaults, settings=told.settings)
    return told.count, settings_of(shlex.split(submit_arguments(one, script)))


FILE = """
spark.master k8s://https://kubernetes.default.svc
spark.executor.instances 20
spark.kubernetes.container.image theirs
spark.kubernetes.executor.podTemplateFile /theirs.yaml
"""


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The image's template of an executor's pod."""
    (tmp_path / "executor-pod.yaml").touch()
    monkeypatch.setattr("understudy.supervisor.native._TEMPLATE", tmp_path / "executor-pod.yaml")
    return str(tmp_path / "executor-pod.yaml")


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize("named", [True, False])
def test_settings_of_files_count_as_those_of_options_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(FILE)
    if not named:
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    submit = ("--properties-file", str(tmp_path / "spark-defaults.conf")) if named else ()
    count, settings = arguments(*submit)
    assert count == 20
    assert settings["spark.executor.instances"] == "1"  # a standby's, until it leads
    assert settings["spark.kubernetes.namespace"] == "tests"  # not in the file
    assert not settings.keys() & {"spark.kubernetes.container.image", "spark.kubernetes.executor.podTemplateFile"}


def test_what_no_file_sets_has_defaults_and_a_file_that_the_script_names_counts(tmp_path: Path, template: str) -> None:
    options = ("--master", "k8s://https://kubernetes.default.svc")
    count, settings = arguments(*options)
    assert (count, settings["spark.kubernetes.container.image"]) == (2, "ours")
    assert settings["spark.kubernetes.executor.podTemplateFile"] == template
    (tmp_path / "script.conf").write_text("spark.kubernetes.namespace theirs\n")
    _, settings = arguments(*options, script=f"--properties-file {tmp_path / 'script.conf'} pyspark-shell")
    assert settings["spark.kubernetes.container.image"] == "ours"
    assert "spark.kubernetes.namespace" not in settings
