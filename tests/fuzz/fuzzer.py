"""atheris on one target, as a process: a fuzzer never returns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import SEEDS

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def fuzz(name: str, seconds: int) -> tuple[int, str]:
    """Inputs tried, and what it crashed with, or nothing."""
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
