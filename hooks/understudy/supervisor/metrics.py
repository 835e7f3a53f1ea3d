"""What ``/metrics`` of one replica shows, for Prometheus: read from its health when asked, so nothing is kept twice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from understudy.supervisor.health import Health


class ReplicaMetrics(Collector):
    """``requests``: how many were sent to a server, by kind."""

    def __init__(self, health: Health, requests: Mapping[str, int]) -> None:
        self._health = health
        self._requests = requests

    def _gauges(self) -> dict[str, tuple[str, float]]:
        """What each means, and its value; those that say nothing now are left out."""
        health = self._health
        gauges = {
            "leader": (
                "1 while this replica leads, and its last renewal is not too old for that.",
                float(health.leads and health.lease_lasts()),
            ),
            "needs_no_leader": (
                "1 while there is nothing to lead: the run has ended, or nothing was submitted.",
                float(health.needs_no_leader),
            ),
            "suspended": ("1 while the job is SUSPENDED, as far as this replica knows.", float(health.suspended)),
            "paused": ("1 while no standby may take over, as far as this replica knows.", float(health.paused)),
            "epoch": ("Epoch of the last grant of this replica.", float(health.epoch)),
            "standby_rehearsed": (
                "1 while this replica is a standby that has rehearsed every query the leader runs.",
                float(health.rehearsed and not health.leads and not health.lacks),
            ),
            "queries_rehearsed": ("Queries of the script that this replica has rehearsed.", float(health.queries)),
            "queries_failed": (
                "Queries of this leader's that have died while others run; the status names them.",
                float(len(health.failed)),
            ),
            "standby_age_seconds": ("Since this replica's script began.", time.time() - health.script_since),
        }
        if (age := health.rehearsal_age) is not None:
            gauges["rehearsal_age_seconds"] = ("Since the last rehearsal of this standby that worked.", age)
        if (age := health.commit_age) is not None:
            gauges["commit_age_seconds"] = (
                "Since the last commit of the job that this replica leads; before the first of a run, or after a resume, since the grant.",
                age,
            )
        return gauges

    def collect(self) -> Iterable[Metric]:
        health = self._health
        health.fence.look()
        for name, (text, value) in self._gauges().items():
            yield GaugeMetricFamily(f"understudy_{name}", text, value)
        how = GaugeMetricFamily("understudy_rehearsal_info", "How this standby rehearses.", labels=["how"])
        how.add_metric([health.how or "none"], 1.0)
        yield how
        phases = GaugeMetricFamily(
            "understudy_takeover_seconds",
            "The last takeover by this replica: claim of the job, then start and first_commit, both since the grant.",
            labels=["phase"],
        )
        for phase, seconds in health.phases.items():
            phases.add_metric([phase], seconds)
        yield phases
        counters = {
            "takeovers": (
                "Grants this replica received, but for those that begin a run, or go on after a resume.",
                health.takeovers,
            ),
            "losses": ("Leads of this replica that ended, given back or lost.", health.losses),
            "refused_writes": ("Writes the fence refused to this replica's driver.", health.fence.refused),
        }
        for name, (text, count) in counters.items():
            yield CounterMetricFamily(f"understudy_{name}", text, count)
        sent = CounterMetricFamily(
            "understudy_api_requests", "To the server that keeps lock and documents, and bytes sent.", labels=["what"]
        )
        for what, count in self._requests.items():
            sent.add_metric([what], count)
        yield sent
