"""Which code a replica runs, in the order in which it was rolled out.

A digest tells generations apart and says nothing about which is newer: a rollback brings an old digest back. So
generations carry a number. In a cluster it is the Deployment's own revision, which a rollback raises, too. Elsewhere a
replica that starts while another digest leads is one above it. Numbers of two workloads (a Deployment deleted and made
again begins at 1) are never compared: the new one adopts the job.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import UnderstudyError


class Superseded(UnderstudyError):
    """A newer generation has led: this replica never leads again. It ends when its rollout removes it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """``digest`` of script, arguments and settings; ``workload`` is who counts (name and uid), empty on one machine."""

    number: int = 0
    digest: str = ""
    workload: str = ""

    def numbered(self, standing: Generation) -> Generation:
        """Numbers this generation after ``standing``, the one that led last, if no workload has numbered it."""
        if self.number or standing.workload != self.workload:
            return self
        newer = self.digest != standing.digest
        return Generation(standing.number + newer, self.digest, self.workload)

    def check(self, standing: Generation) -> None:
        """Raises ``Superseded`` when ``standing`` is newer."""
        # guard: older-generation-never-leads
        if self.workload == standing.workload and self.number < standing.number:
            raise Superseded(
                f"generation {standing.number} ({standing.digest}) has led, and this is {self.number} ({self.digest})",
                where="generation",
                remedy="To go back to this code roll it out again: a rollback counts as a new generation",
            )
