"""What a refused claim of a root ends a replica with, or what follows when the lock is raised above it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.driver.fence_client import FenceClient
from understudy.driver.root_claims import RootClaims
from understudy.errors import CheckpointLost, IdentityConflict
from understudy.protocol.gate import State
from understudy.protocol.messages import ClaimRefused, Granted, Message, Roots
from understudy.protocol.token import Token
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


class Fence:
    """Claims as the JVM's does, with the token of the gate."""

    def __init__(self, token: Token, standing: dict[str, Token]) -> None:
        self.token, self.standing = token, standing

    def claim(self, root: str, _: Any, *__: int) -> str:
        stands = self.standing.get(root)
        if stands is not None and stands > self.token:
            return json.dumps({"outcome": "refused", "reason": "higher-token", "token": int(stands)})
        self.standing[root] = self.token
        return json.dumps({"outcome": "claimed"})


class Session:
    """What a claim takes of one."""

    _jsparkSession = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=dict))  # noqa: N815 - PySpark's name


def test_when_the_lock_is_raised_every_root_is_claimed_again_before_the_record_says_so() -> None:
    """The record said the new token of a root that had the old one: its next leader took it for one restored from a copy."""
    fence = Fence(Token(1, 1), {"/old": Token(37, 1)})
    recorded: dict[str, Token] = {}

    def send(message: Message) -> None:
        match message:
            case ClaimRefused(token=token):
                fence.token = Token(Token.from_int(token).epoch + 1, 1)
                claims.reclaim()
            case Roots(roots):
                recorded.update(dict.fromkeys(roots, fence.token))

    gate_client: Any = SimpleNamespace(standing=lambda: State.OPEN)
    check: Any = SimpleNamespace(session=lambda _: None)
    client = FenceClient()
    claims = RootClaims(gate_client, check, client, send)
    client.attached(SimpleNamespace(**{"dev.understudy.fence.Fence": fence}))
    claims.granted(Granted(1))
    claims.claim({"/new": Session()})
    claims.claim({"/old": Session()})
    assert recorded == fence.standing == {"/new": Token(38, 1), "/old": Token(38, 1)}
