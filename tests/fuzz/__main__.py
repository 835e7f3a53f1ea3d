"""``python -m tests.fuzz [TARGET…] [--seconds 30]``: atheris on every target; JSON of how many inputs each was given.

A crash is kept in ``build/fuzz/crashes``, told with its traceback, and makes the exit code 1. Needs ``tools/setup.sh fuzz``.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.fuzz.fuzzer import fuzz, fuzzer_is_there
from tests.fuzz.targets import TARGETS


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
