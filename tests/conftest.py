"""For all tests: Hypothesis asserts no time, for machines are shared and noisy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("understudy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("understudy")
