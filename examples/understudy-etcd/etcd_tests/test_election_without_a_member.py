"""One of three members is killed or frozen, and a leader leads on."""

from __future__ import annotations

import pytest

# A test of the product, run again here: pytest collects what this module has.
from tests.contract.test_zookeeper_election import (  # noqa: F401
    test_a_leader_leads_on_when_the_first_of_the_servers_goes,
)

pytestmark = pytest.mark.long
