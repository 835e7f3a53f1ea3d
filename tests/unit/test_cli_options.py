"""``understudy run``'s options, as users have them in scripts and manifests: a name or a default never changes by accident.

A new option is checked by ``test_config_options``, and stands here from its first release on.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import typer.main

from understudy.cli.main import app

#: Option, its default, and what help says of it where that is not the default itself.
OPTIONS: list[tuple[str, Any, str]] = [
    ("--checkpoints", None, "below --ha-dir, with --ha filesystem"),
    ("--cluster-id", None, "the script's name"),
    ("--ha", None, "what --lock belongs to; without it, kubernetes in a pod, else filesystem"),
    ("--ha-address", None, "none"),
    ("--ha-dir", None, "~/.local/state/understudy"),
    ("--job-id", None, "the cluster id"),
    ("--listen", None, "nowhere; with --ha kubernetes [::]:8080, every address of IPv4 and IPv6"),
    ("--lock", None, "the first that --ha has: lease in a pod, else file"),
    ("--namespace", None, "the pod's own"),
    ("--profile", "default", ""),
    ("--rehearse", "live", ""),
    ("--rehearse-bytes", 2_000_000_000, ""),
    ("--rehearse-every", 30.0, ""),
    ("--rehearse-rounds", 32, ""),
    ("--rehearse-rows", 10_000_000, ""),
    ("--rehearse-user-code", None, ""),
    ("--restart-attempts", 10, ""),
    ("--restart-delay", 1.0, ""),
    ("--restart-window", 600.0, ""),
    ("--run-id", None, "the run under way"),
    ("--scratch", None, "this machine's disk"),
    ("--standby-executors", 1, ""),
    ("--standby-max-age", 3600.0, ""),
    ("--stop-patience", 0.3, ""),
    ("--takeover-timeout", 120.0, ""),
    ("--timing", None, ""),
    ("--tune", None, ""),
]


def params() -> list[Any]:
    command: Any = typer.main.get_command(app)
    return list(command.commands["run"].params)


def test_every_option_has_the_name_and_the_default_it_always_had() -> None:
    found = [
        (*each.opts, each.default or None, each.show_default if isinstance(each.show_default, str) else "")
        for each in params()
        if each.param_type_name == "option"
    ]
    known = sorted((each for each in found if each[0] in {name for name, _, _ in OPTIONS}), key=lambda each: each[0])
    assert known == OPTIONS
    assert [type(each[1]) for each in known] == [type(each[1]) for each in OPTIONS]


def test_only_a_timing_may_be_given_several_times_and_two_options_take_no_value() -> None:
    options = [each for each in params() if each.param_type_name == "option"]
    options = [each for each in options if each.opts[0] in {name for name, _, _ in OPTIONS}]
    assert [each.name for each in options if each.multiple] == ["timing"]
    assert [each.name for each in options if each.is_flag] == ["rehearse_user_code", "tune"]
    assert not any(each.required or each.secondary_opts for each in options)


def test_what_follows_the_options_is_one_list_of_words() -> None:
    (rest,) = (each for each in params() if each.param_type_name == "argument")
    assert (rest.name, rest.nargs, rest.required) == ("rest", -1, False), "none where a script was submitted"


def test_help_answers_without_what_a_command_needs() -> None:
    """Help and completion start as fast as they can: no event loop, no TLS, and none of the rooms that do the work."""
    shown = "import sys, understudy.cli.main; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True, text=True).stdout.split()
    rooms = ("services", "supervisor", "ha", "election", "documents", "blobs", "doctor", "driver")
    assert [
        name for name in loaded if name in {"asyncio", "ssl"} or name.split(".")[1:2] in [[room] for room in rooms]
    ] == []
