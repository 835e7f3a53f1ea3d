"""``python -m tests.fuzz [TARGET…] [--seconds 30]``: atheris on every target; JSON of how many inputs each was given.

A crash is kept in ``build/fuzz/crashes``, told with its traceback, and makes the exit code 1. Needs ``tools/setup.sh fuzz``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import SEEDS, TARGETS

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def fuzz(name: str, seconds: int) -> tuple[int, str]:
    """Inputs tried, and what it crashed with, or nothing. In a process of its own: a fuzzer never returns."""
    corpus, crashes = BUILD / "corpus" / name, BUILD / "crashes"
    for directory in (corpus, crashes):
        directory.mkdir(parents=True, exist_ok=True)
    (corpus / "seed").write_bytes(SEEDS[name])
    options = [
        f"-max_total_time={seconds}",
        "-print_final_stats=1",
        "-max_len=4096",
        f"-artifact_prefix={crashes}/{name}-",
    ]
    command = [sys.executable, "-m", "tests.fuzz.inside", str(BUILD / "lib"), name, *options, str(corpus)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    runs = _RUNS.search(ended.stderr)
    crash = "" if ended.returncode == 0 else (ended.stdout + ended.stderr)[-4000:]
    return int(runs[1]) if runs else 0, crash


def fuzzer_is_there() -> bool:
    return (BUILD / "lib" / "atheris").is_dir()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if not fuzzer_is_there():
        parser.error("there is no fuzzer: run tools/setup.sh fuzz")
    failed = False
    runs: dict[str, int] = {}
    for name in options.targets or TARGETS:
        runs[name], crash = fuzz(name, options.seconds)
        if crash:
            failed = True
            sys.stderr.write(f"{name}: {crash}\n")
    sys.stdout.write(f"{json.dumps(runs)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
