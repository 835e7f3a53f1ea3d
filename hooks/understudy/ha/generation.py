"""Which code a replica runs, in the order in which it was rolled out.

A digest tells generations apart and says nothing about which is newer: a rollback brings an old digest back. So
generations carry a number. In a cluster it is the Deployment's own revision, which a rollback raises, too. Elsewhere a
replica that starts while another digest leads is one above it. Numbers of two workloads (a Deployment deleted and made
again begins at 1) are never compared: the new one adopts the job.

Of what was submitted, the submission's number counts, too: replicas of one revision may have started with different ones, and a replica
that has fetched an earlier one late is no rollback.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from understudy.errors import UnderstudyError


class Superseded(UnderstudyError):
    """A newer generation has led: this replica never leads again. It ends when its rollout removes it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """``digest`` of script, arguments and settings; ``workload`` is who counts (name and uid), empty on one machine. ``submission``: the number of
    what was submitted, 0 for a script of the replica's own.
    """

    number: int = 0
    digest: str = ""
    workload: str = ""
    submission: int = 0

    def body(self) -> dict[str, object]:
        """As it stands in a job's record. A replica that knows no submissions drops the number, and then its own code leads."""
        body = asdict(self)
        return body if self.submission else {key: value for key, value in body.items() if key != "submission"}

    def numbered(self, standing: Generation) -> Generation:
        """Numbers this generation after ``standing``, the one that led last, if no workload has numbered it."""
        if self.number or standing.workload != self.workload:
            return self
        newer = self.digest != standing.digest and not 0 < self.submission < standing.submission
        return replace(self, number=standing.number + newer)

    def check(self, standing: Generation) -> None:
        """Raises ``Superseded`` when ``standing`` is newer."""
        # guard: older-generation-never-leads
        if self.workload == standing.workload and self._order < standing._order:
            raise Superseded(
                f"generation {standing} has led, and this is {self}",
                where="generation",
                remedy="To go back to this code roll it out again: a rollback counts as a new generation",
            )

    @property
    def _order(self) -> tuple[int, int]:
        return self.number, self.submission

    def __str__(self) -> str:
        submitted = f", submission {self.submission}" if self.submission else ""
        return f"{self.number} ({self.digest}{submitted})"
