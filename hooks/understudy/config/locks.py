"""The built-in services and their kinds of lock. A constant of its own, so that options are declared without loading any services."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: The kinds of lock of each built-in, the default first. ``understudy.services`` has a module of each name.
BUILT_IN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kubernetes": ("lease", "configmap", "multi"),
        "filesystem": ("file",),
        "zookeeper": ("zookeeper",),
        "s3": ("s3",),
    }
)
