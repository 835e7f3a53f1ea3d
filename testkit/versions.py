"""The versions that this repository pins for its tests."""

from __future__ import annotations

import re

from testkit.places import KUBERNETES


def kubernetes_version() -> str:
    """With its ``v``."""
    found = re.search(r"^\tk8s\.io/kubernetes (v\S+)$", KUBERNETES.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found.group(1)
