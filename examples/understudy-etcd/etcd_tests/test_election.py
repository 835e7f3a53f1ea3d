"""A leader is cut off or told to stop, on three members."""

from __future__ import annotations

# Tests of the product, run again here: pytest collects what this module has.
from tests.contract.test_zookeeper_election import (  # noqa: F401
    test_a_leader_that_is_cut_off_has_closed_its_gate_before_another_leads,
    test_a_leader_that_is_told_to_stop_names_its_successor_and_no_lease_is_waited_for,
)
