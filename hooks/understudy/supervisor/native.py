"""Native mode: executors are pods that the driver makes, in the namespace of its own pod.

A standby has a session of its own with a few executors, or it could rehearse nothing. The executors of a leader that is gone are
deleted before the first batch of the next one, those of a driver that another one replaces in its pod before that one starts. That is
tidiness and no fence: on a node that is cut off they live on, and the gate and the claims are what keeps them from writing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.addresses import bracketed
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.protocol.names import EXECUTOR_OF_LABEL, HOLDER_LABEL
from understudy.submit import executors_wanted, is_native, without

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer

_TEMPLATE = Path("/opt/spark/conf/executor-pod.yaml")


@dataclass(frozen=True, slots=True)
class Executors:
    """What a driver is told of its executors when it starts: by default that they are Spark's business, and no pods.

    ``submit`` is what is left of spark-submit's options; ``defaults``, ``settings`` and ``count`` are the ``DriverSpec``'s.
    ``rehearses``: a standby has executors to rehearse on.
    """

    submit: tuple[str, ...]
    defaults: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    count: int = 0
    rehearses: bool = True


@dataclass(frozen=True, slots=True)
class Native:
    """Executors of the job ``cluster``, for the driver in pod ``pod``. ``start`` is the supervisor's own start."""

    api: ApiServer
    cluster: str
    start: str
    pod: str
    address: str
    image: str
    standby_executors: int

    @classmethod
    def of(
        cls,
        submit: Iterable[str],
        api: ApiServer,
        cluster: str,
        start: str,
        pod: str,
        address: str,
        image: str,
        warm: int,
    ) -> Native | None:
        """``None`` when the master is no Kubernetes cluster. Raises ``SettingsError``."""
        options = tuple(submit)
        if not is_native(options, os.environ):
            return None
        if not address:
            raise SettingsError(
                "not set", where="UNDERSTUDY_POD_IP", remedy="Set it from the downward API: fieldRef: status.podIP"
            )
        executors_wanted(options, os.environ)  # refused now, and not when the first driver starts
        return cls(api, cluster, start, pod, address, image, warm)

    def executors(self, submit: Iterable[str]) -> Executors:
        """Raises ``SettingsError`` when the job asks for what is no number of executors."""
        options = tuple(submit)
        count = executors_wanted(options, os.environ)
        return Executors(
            submit=tuple(without(options, "--num-executors")),
            defaults=self._defaults(),
            settings=self._settings(count),
            count=count,
            rehearses=self.standby_executors > 0,
        )

    def _defaults(self) -> dict[str, str]:
        """What a user may set otherwise, in an option or in a file of settings, which the driver reads when it starts Spark."""
        found = {
            "spark.kubernetes.namespace": self.api.namespace,
            "spark.kubernetes.container.image": self.image,
            "spark.kubernetes.executor.disableConfigMap": "true",
        }
        if _TEMPLATE.exists():
            found["spark.kubernetes.executor.podTemplateFile"] = str(_TEMPLATE)
        return found

    def _settings(self, count: int) -> dict[str, str]:
        """What has to be as it is: executors find their driver, belong to its pod, and can be told from others'."""
        found = {
            "spark.driver.host": bracketed(self.address),
            "spark.driver.bindAddress": bracketed(self.address),  # executors are told this one (useDriverPodIP)
            "spark.kubernetes.driver.pod.name": self.pod,
            f"spark.kubernetes.executor.label.{EXECUTOR_OF_LABEL}": self.cluster,
            f"spark.kubernetes.executor.label.{HOLDER_LABEL}": self.start,
        }
        if count:
            found["spark.executor.instances"] = str(min(self.standby_executors, count))
        return found

    async def clear(self, alive: Iterable[str], log: Log, *, own: bool = False) -> None:
        """Delete executors of everybody but ``alive`` (starts of supervisors) and, unless ``own``, ourselves.

        Never raises for an API server.
        """
        keep = ",".join(sorted({*alive} if own else {self.start, *alive}))
        await self._delete(f"{HOLDER_LABEL} notin ({keep})" if keep else "", "earlier leaders", log)

    async def clear_own(self, log: Log) -> None:
        """Delete executors of our earlier drivers, of which none runs: they were killed, and the pod that owns their executors lives.

        Never raises for an API server.
        """
        await self._delete(f"{HOLDER_LABEL}={self.start}", "this replica's earlier drivers", log)

    async def _delete(self, which: str, whose: str, log: Log) -> None:
        from understudy.documents.api_server import forbidden

        selector = ",".join(filter(None, [f"{EXECUTOR_OF_LABEL}={self.cluster}", which]))
        try:
            answer = await self.api.request(
                "DELETE", self.api.path("pods"), labelSelector=selector, gracePeriodSeconds="0"
            )
        except OSError as error:
            problem = str(error) or "no answer"
        else:
            match answer.status:
                case 200:
                    if names := [pod["metadata"]["name"] for pod in answer.body.get("items") or []]:
                        told = f"{len(names)} executors of {whose}: {', '.join(names)}"
                        log.say("executors-deleted", told, pods=names)
                    return
                case 403:
                    problem = str(forbidden(answer, "deletecollection", "pods", self.api.namespace, self.cluster))
                case _:
                    problem = answer.reason
        log.say("executors-left", f"executors of {whose} were not deleted: {problem}")
