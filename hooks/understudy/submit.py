"""What spark-submit's options say, as far as a replica has to know."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from understudy.addresses import bracketed


def settings_of(submit: Sequence[str]) -> dict[str, str | None]:
    """The ``--conf key=value`` of spark-submit options, in either of its spellings."""
    pairs = [option.removeprefix("--conf=") for option in submit if option.startswith("--conf=")]
    pairs += [value for option, value in itertools.pairwise(submit) if option in ("--conf", "-c")]
    return {key.strip(): value for key, _, value in (pair.partition("=") for pair in pairs)}


def option(submit: Sequence[str], name: str, setting: str) -> str:
    """The value of an option such as ``--master``, else of the setting it stands for; empty if neither is given."""
    given = [value for each, value in itertools.pairwise(submit) if each == name]
    given += [each.removeprefix(f"{name}=") for each in submit if each.startswith(f"{name}=")]
    return given[-1] if given else settings_of(submit).get(setting) or ""


def local_files(submit: Sequence[str], name: str, setting: str) -> list[Path]:
    """Files on this machine among those that ``option`` lists, without what they are to be called (``env.tgz#env``)."""
    parts = (
        part.strip().partition("#")[0].removeprefix("file://") for part in option(submit, name, setting).split(",")
    )
    return [Path(part) for part in parts if part and "://" not in part]


def is_native(submit: Sequence[str]) -> bool:
    """Whether executors are pods of a Kubernetes cluster."""
    return option(submit, "--master", "spark.master").startswith("k8s://")


def executors_wanted(submit: Sequence[str]) -> int:
    """How many executors a job runs with: Spark's own default is two. 0 if Spark decides by load.

    Raises ``ValueError`` for what is no number.
    """
    if (settings_of(submit).get("spark.dynamicAllocation.enabled") or "").lower() == "true":
        return 0
    return int(option(submit, "--num-executors", "spark.executor.instances") or 2)


def with_bracketed_hosts(submit: Sequence[str]) -> list[str]:
    """``submit`` with IPv6 addresses of the driver in brackets: Kubernetes gives a pod's address without, Spark refuses it so."""
    return [_bracketed_host(word) for word in submit]


def _bracketed_host(word: str) -> str:
    setting, equals, value = word.rpartition("=")
    if setting.removeprefix("--conf=") in ("spark.driver.host", "spark.driver.bindAddress"):
        return f"{setting}{equals}{bracketed(value)}"
    return word


def without(submit: Sequence[str], name: str) -> list[str]:
    """``submit`` without the option ``name`` and its value: spark-submit lets an option win over every ``--conf``."""
    kept: list[str] = []
    words = iter(submit)
    for word in words:
        if word == name:
            next(words, None)
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return kept
