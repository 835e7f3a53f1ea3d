"""What a refused claim of a root ends a replica with."""

from __future__ import annotations

import pytest

from understudy.errors import CheckpointLost, IdentityConflict
from understudy.fencing.token import Token
from understudy.messages import ClaimRefused
from understudy.supervisor.claims import refused_claim


def test_a_higher_token_ends_nothing() -> None:
    assert refused_claim(ClaimRefused("/a", "higher-token", int(Token(9, 0)))) is None


@pytest.mark.parametrize("reason", ["other-job", "other-cluster", "other-lock", "other-holder", "unreadable"])
def test_what_belongs_to_another_is_told_with_the_rule(reason: str) -> None:
    error = refused_claim(ClaimRefused("/a", reason, 1, "job flights of cluster prod"))
    assert isinstance(error, IdentityConflict)
    assert error.exit_code == 5
    assert "job flights of cluster prod" in str(error)
    shared = "only jobs that append in batches may share a directory" in str(error)
    assert shared == (reason in {"other-job", "other-cluster"})


@pytest.mark.parametrize(("reason", "told"), [("missing-claim", "has no claim"), ("behind-record", "3.1, is older")])
def test_a_lost_checkpoint_is_told_with_what_accepts_the_loss(reason: str, told: str) -> None:
    error = refused_claim(ClaimRefused("s3a://b/a", reason, int(Token(3, 1)), "job flights of cluster prod"))
    assert isinstance(error, CheckpointLost)
    assert error.exit_code == 4
    assert told in str(error)
    assert "understudy resume --accept-checkpoint s3a://b/a" in str(error)
