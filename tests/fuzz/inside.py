"""One target under the fuzzer, for as long as its options say: ``python -m tests.fuzz.inside LIBRARY TARGET OPTION…``."""

from __future__ import annotations

import importlib
import sys


def main(library: str, name: str, *options: str) -> None:
    sys.path.append(library)
    atheris = importlib.import_module("atheris")
    # What is imported in here is instrumented: branches taken are what the fuzzer goes by.
    with atheris.instrument_imports(include=["understudy", "json"]):
        targets = importlib.import_module("tests.fuzz.targets")
    atheris.Setup([sys.argv[0], *options], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
