"""What is done to a job's pods: signals to their processes, and deletion."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any

from e2e.harness.deployment_under_test import DeploymentUnderTest, Failed
from e2e.harness.kubectl import Failed as Refused
from testkit import procs

#: What dies: a pattern of its command line, as a shell's ``case`` knows it. The container: all of its processes.
VICTIMS = {"jvm": "*SparkSubmit*", "driver": "*-m understudy.driver*", "container": "*"}

#: A label of executors' pods.
EXECUTOR = "understudy.dev/executor-of"


class FaultInjector(DeploymentUnderTest):
    __slots__ = ()

    @staticmethod
    def send(process: procs.Process, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)

    def send_signal(self, pod: Any, kind: str, number: int = signal.SIGKILL) -> float:
        """When the signal was sent, in seconds since 1970."""
        if not self.cluster.local or EXECUTOR in pod["metadata"]["labels"]:
            return self._signal_inside(pod, kind, number)
        wanted = VICTIMS[kind].strip("*")
        victims = [process for process in self.processes(pod) if wanted in process.command]
        if kind == "container":  # its first process: the kernel takes the others along
            own = {process.pid for process in victims}
            victims = [process for process in victims if process.parent not in own]
        if not victims:
            raise Failed(f"{kind}: no such process in {pod['metadata']['name']}")
        at = time.time()
        for process in victims:
            self.send(process, number)
        return at

    def _signal_inside(self, pod: Any, kind: str, number: int) -> float:
        """From inside a container nothing can kill its first process; that one ends when all others have."""
        script = f"date +%s.%N; kill -{number} -1"
        if kind != "container":
            script = (
                "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in"
                f" *sh\\ -c*) ;; {VICTIMS[kind]}) date +%s.%N; kill -{number} ${{p#/proc/}} ;; esac; done"
            )
        command = ["exec", pod["metadata"]["name"], "-n", self.namespace, "--", "sh", "-c", script]
        asked = time.time()
        try:
            printed = self.cluster.kubectl(*command)
        except Refused as ended:
            # The shell went along with its container, perhaps before anybody had read what it printed.
            if not ended.printed and ended.status != 128 + signal.SIGKILL:
                raise
            printed = ended.printed or str(asked)
        if not printed:
            raise Failed(f"{kind}: no such process in {pod['metadata']['name']}")
        return float(printed.split()[0])

    def delete(self, pod: Any, *, force: bool = False) -> float:
        """As ``kubectl delete pod`` does, with and without ``--force --grace-period=0``. When it was asked, s since 1970."""
        at = time.time()
        query = "?gracePeriodSeconds=0" if force else ""
        self.proxy.delete(f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}{query}")
        return at
