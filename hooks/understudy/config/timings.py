"""Lease timing: profiles, single values, and the inequalities between them.

Every inequality is checked with the numbers that were given. A value that breaks one is refused with the inequality in the message, and
never adjusted: a time-out that moves silently makes a lock unsafe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from understudy.errors import SettingsError

#: Clocks of two machines may run at different speeds; one per cent covers anything a working machine does.
DRIFT = 1.01


@dataclass(frozen=True, slots=True)
class Timings:
    """Lease timing, all in seconds. The first three are client-go's lease duration, renew deadline and retry period.

    ``lease``: how long a follower waits after it last saw the record change. ``renew``: the gate closes when no renewal was confirmed
    for this long. ``retry``: pause between attempts, and between a leader's renewals. ``request``: time-out of one request. ``kill``:
    how long killing the driver's session may take. ``write_timeout``: bound on one write of the fence. ``grace``: how long a parked
    driver stays warm behind a closed gate.

    Raises:
        SettingsError: a value is not above 0, or an inequality does not hold.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.2
    request: float = 2.0
    kill: float = 0.5
    write_timeout: float = 4.0
    grace: float = 600.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not 0 < value < math.inf:
                raise SettingsError(
                    f"{item.name} is {value} s", where=f"timings.{item.name}", remedy="Give a time above 0"
                )
        total = (self.retry + self.renew + self.request + self.kill) * DRIFT
        if not total < self.lease:
            raise SettingsError(
                f"(retry {self.retry} + renew {self.renew} + request {self.request} + kill {self.kill}) · {DRIFT} "
                f"= {total:.3f} s is not below lease {self.lease} s",
                where="timings.lease",
                remedy=f"Raise lease above {total:.3f} or lower the others",
            )
        if not self.renew + self.write_timeout < self.lease:
            raise SettingsError(
                f"renew {self.renew} + write_timeout {self.write_timeout} = {self.renew + self.write_timeout:.2f} s "
                f"is not below lease {self.lease} s",
                where="timings.write_timeout",
                remedy="Raise lease or lower write_timeout",
            )

    @property
    def kill_after(self) -> float:
        """Seconds from the send time of the last confirmed renewal until the driver's session is killed."""
        return self.renew + self.retry + self.request


PROFILES: Mapping[str, Timings] = {
    "default": Timings(),
    "fast": Timings(lease=5.0, renew=3.0, retry=0.7, request=0.8, kill=0.4, write_timeout=1.5),
}


def timings_from(profile: str, overrides: Mapping[str, str]) -> Timings:
    """Returns the named profile with single values replaced, checked together.

    Raises:
        SettingsError: a name is unknown, a text is no number, or the values do not fit together.
    """
    if profile not in PROFILES:
        raise SettingsError(
            f"unknown profile {profile!r}", where="--profile", remedy=f"Choose one of {', '.join(PROFILES)}"
        )
    known = {item.name for item in fields(Timings)}
    values = {name: getattr(PROFILES[profile], name) for name in known}
    for name, text in overrides.items():
        if name not in known:
            raise SettingsError(
                f"unknown timing {name!r}", where="--timing", remedy=f"Known: {', '.join(sorted(known))}"
            )
        try:
            values[name] = float(text)
        except ValueError:
            raise SettingsError(
                f"{text!r} is not a number of seconds", where=f"--timing {name}", remedy=f"Write --timing {name}=5"
            ) from None
    return Timings(**values)
