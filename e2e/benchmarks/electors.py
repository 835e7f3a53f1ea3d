"""What elections cost an API server, and whether it costs them: ``make bench-electors``.

200 leaders, each alone in an election of its own with the default timing, renew against one API server for a while. Counted:
how long a renewal takes, how many were demoted although nothing was wrong, and requests, writes and bytes per application and
second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.harness import manifests
from e2e.harness.kubectl import attach
from testkit import reports

#: Electors per process: an application has a process of its own, but 200 of them would measure Python's imports.
_PER_PROCESS = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--electors", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5.0, help="30 for figures worth publishing")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--out", type=Path, default=reports.OUT)
    options = parser.parse_args()
    out = reports.made(options.out)
    cluster = attach(os.environ)
    namespace = f"bench-electors-{os.getpid()}"
    cluster.apply("default", manifests.namespace(namespace))
    processes = []
    try:
        for first in range(0, options.electors, _PER_PROCESS):
            last = min(first + _PER_PROCESS, options.electors)
            command = [
                sys.executable,
                "-m",
                "e2e.harness.many_electors",
                namespace,
                "leader",
                str(first),
                str(last),
                options.profile,
            ]
            processes.append(cluster.start(*command))
        began = time.monotonic()
        time.sleep(options.minutes * 60)
        for electors in processes:
            electors.send_signal(signal.SIGTERM)
        said = [json.loads(line) for electors in processes for line in electors.communicate()[0].splitlines()]
        seconds = time.monotonic() - began
    finally:
        for electors in processes:
            electors.kill()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    report = summary(said, seconds)
    target = out / "electors_k8s.json"
    reports.write(target, report)
    sys.stdout.write(f"{json.dumps(report, indent=2)}\nwritten: {target}\n")
    return 0 if report["leaders"] == options.electors and report["false_demotions"] == 0 else 1


def summary(said: Sequence[dict[str, Any]], seconds: float) -> dict[str, Any]:
    ends = [each for each in said if each["said"] == "renewals"]
    took = sorted(second for each in ends for second in each["took"])
    cuts = statistics.quantiles(took, n=100)
    n = len(ends)
    return {
        "electors": n,
        "leaders": len({each["name"] for each in said if each["said"] == "leads"}),
        "false_demotions": sum(each["said"] in ("lost", "parked") for each in said),
        "renew_p50_s": round(cuts[49], 4),
        "renew_p99_s": round(cuts[98], 4),
        "renew_max_s": took[-1],
        "per_application": {
            "writes_per_s": round(sum(each["sent"]["writes"] for each in ends) / n / seconds, 3),
            "requests_per_s": round(sum(each["sent"]["requests"] for each in ends) / n / seconds, 3),
            "bytes_per_s": round(sum(each["sent"]["bytes"] for each in ends) / n / seconds, 1),
            "bytes_per_write": round(
                sum(each["sent"]["bytes"] for each in ends) / sum(each["sent"]["writes"] for each in ends), 1
            ),
        },
        "seconds": round(seconds, 1),
        **reports.provenance(),
    }


if __name__ == "__main__":
    sys.exit(main())
