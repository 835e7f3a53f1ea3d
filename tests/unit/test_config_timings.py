from __future__ import annotations

import pytest

from understudy.config.timings import PROFILES, Timings, timings_from
from understudy.errors import SettingsError
from understudy.protocol.names import check_id
from understudy.supervisor import driver_reports, membership


def test_both_profiles_keep_their_own_rules() -> None:
    assert PROFILES["default"].kill_after == pytest.approx(14.2)
    assert PROFILES["fast"].kill_after == pytest.approx(4.5)


def test_three_replicas_cost_the_api_server_half_a_write_per_second_notes_included() -> None:
    notes = 1 / driver_reports._COMMITS_NOTED_EVERY + 2 / membership._REFRESH
    assert 1 / PROFILES["default"].retry + notes <= 0.5


def test_a_lease_that_kills_too_late_is_refused_with_the_inequality_and_its_numbers() -> None:
    with pytest.raises(
        SettingsError, match=r"\(retry 2.2 \+ renew 10.0 \+ request 2.0 \+ kill 0.5\) · 1.01 = 14.847 s.*lease 14.8"
    ):
        Timings(lease=14.8)


def test_clock_drift_is_part_of_the_rule() -> None:
    with pytest.raises(SettingsError, match="not below lease"):
        Timings(lease=14.8)  # it would fit without the one per cent
    Timings(lease=14.9)


def test_a_write_that_outlives_the_lease_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"renew 10.0 \+ write_timeout 5.0 = 15.00 s"):
        Timings(write_timeout=5.0)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_time_that_is_not_above_zero_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="timings.retry"):
        timings_from("default", {"retry": value})


def test_timings_are_never_adjusted() -> None:
    given = timings_from("default", {"lease": "20", "grace": "60"})
    assert (given.lease, given.grace, given.renew) == (20.0, 60.0, 10.0)


@pytest.mark.parametrize(
    ("profile", "overrides", "said"),
    [
        ("quick", {}, "unknown profile 'quick'.*default, fast"),
        ("fast", {"leese": "5"}, "unknown timing 'leese'.*lease"),
        ("fast", {"lease": "five"}, "'five' is not a number.*lease=5"),
    ],
)
def test_an_unknown_setting_names_itself_and_the_remedy(profile: str, overrides: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        timings_from(profile, overrides)


@pytest.mark.parametrize("value", ["", "Flights", "a_b", "-a", "a-", "a" * 41, "a.b", "ä", "flights\n"])
def test_an_id_that_is_no_dns_label_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="--cluster-id"):
        check_id(value, "--cluster-id")
