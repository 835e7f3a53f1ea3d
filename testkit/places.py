"""Where things of this repository are."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CHARTS = REPOSITORY / "charts"
#: The Go module that pins Kubernetes.
KUBERNETES = REPOSITORY / "e2e" / "cluster" / "kube" / "go.mod"
