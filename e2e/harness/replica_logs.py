"""What replicas in a cluster say of themselves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from e2e.harness.deployment_under_test import DeploymentUnderTest
from e2e.harness.kubectl import Failed as Refused
from testkit.tails import Said, parse_event


def said(deployment: DeploymentUnderTest, since: float, log: Path | None = None) -> list[Said]:
    """What every replica that can still be asked said since then, and one that cannot, if its ``log`` was followed."""
    told = {} if log is None else {log.stem: log.read_text(errors="replace")}
    for pod in deployment.pods():
        name = pod["metadata"]["name"]
        with suppress(Refused):
            told[name] = deployment.cluster.kubectl("logs", name, "-n", deployment.namespace, "--since=120s")
    events = [parse_event(Path(name), line) for name, text in told.items() for line in text.splitlines()]
    return [event for event in events if event is not None and event.at >= since]
