"""A claim as JSON: who may write to a resource.

Python writes it into documents (as the body of the entry ``claim``), the JVM into checkpoint roots and sinks (as the file or object
``_understudy/claim``, ``Claim.java``). Both read both.

| key | type | meaning |
| --- | --- | --- |
| ``version`` | integer | 1; another one is refused |
| ``token`` | integer | ``epoch << 32 | attempt``, not negative, below 2**63 |
| ``holder`` | string, not empty | UUID of one run of a supervisor |
| ``cluster`` | string, not empty | cluster id |
| ``job`` | string, not empty | job id |
| ``lock`` | string, not empty | kind of lock that granted the token |

Other keys are ignored: a newer writer may add some. What is not a whole claim is an error and never "no claim".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.errors import DocumentUnreadable
from understudy.protocol.strict_json import parse
from understudy.protocol.token import Token

VERSION = 1

#: The entry of a document that holds its claim, and the kind of that value.
ENTRY = "claim"
#: Where the claim of a root or sink stands, below it: this directory, and in it files of this name.
DIRECTORY = "_understudy"
FILE = "claim"

_TEXTS = ("holder", "cluster", "job", "lock")
_REMEDY = "It is taken for neither free nor absent; restore it, or ask the owner of the cluster before removing it"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who may write to a resource. ``holder`` is the UUID of one supervisor's run, ``lock`` the kind of lock that granted it."""

    token: Token
    holder: str
    cluster: str
    job: str
    lock: str

    def to_body(self) -> dict[str, object]:
        """As the JVM writes it into a root, and as it stands in a document's entry."""
        return {
            "version": VERSION,
            "token": int(self.token),
            "holder": self.holder,
            "cluster": self.cluster,
            "job": self.job,
            "lock": self.lock,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, object], *, where: str = "", revision: str = "") -> Claim:
        """Raises ``DocumentUnreadable`` for anything but a whole claim of a version known here."""
        version, token = body.get("version"), body.get("token")
        texts = [text for key in _TEXTS if isinstance(text := body.get(key), str) and text]
        if type(version) is not int or type(token) is not int or len(texts) != len(_TEXTS):  # true is no number
            reason = "the claim lacks a field, or has one of the wrong type"
        elif version != VERSION:
            reason = f"the claim has version {version}, and {VERSION} is the only one known here"
        else:
            try:
                return cls(Token.from_int(token), *texts)
            except ValueError as error:
                reason = f"the claim's token is none: {error}"
        raise DocumentUnreadable(reason, where=where, remedy=_REMEDY, revision=revision)


def decode(data: bytes, *, where: str = "") -> Claim:
    """The claim in a root or a sink. Raises ``DocumentUnreadable`` for anything but a whole claim of a version known here."""
    try:
        body = parse(data)
    except ValueError as error:
        reason = f"the claim is not JSON: {error}" if data.strip() else "the claim is empty"
        raise DocumentUnreadable(reason, where=where, remedy=_REMEDY) from error
    if not isinstance(body, dict):
        raise DocumentUnreadable("the claim is JSON, but no claim", where=where, remedy=_REMEDY)
    return Claim.from_body(body, where=where)
