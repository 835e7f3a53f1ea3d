"""The driver's process: PySpark with understudy's patches, then the user's script as ``__main__``."""

from __future__ import annotations

import builtins
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy import leadership
from understudy.clock import instant
from understudy.driver.ending import LOST, Ending, Outcome
from understudy.driver.fence_check import FenceCheck
from understudy.driver.gate_client import GateClient
from understudy.driver.jvm import prepare
from understudy.driver.leading import Leading
from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsals import Rehearsals
from understudy.driver.spark_patches import accumulators
from understudy.driver.spark_patches.import_hook import make_importable
from understudy.driver.spark_patches.installation import install
from understudy.driver.stage import Stage
from understudy.errors import LeadershipLost, UnderstudyError
from understudy.processes import die_with_parent, go_first, may_lower_priority, time_namespace
from understudy.protocol.driver_spec import (
    ALIVE_VARIABLE,
    CHANNEL_VARIABLE,
    EXPENDABLE,
    LOW_PRIORITY,
    SPEC_VARIABLE,
    DriverSpec,
)
from understudy.protocol.messages import (
    LONGEST_LINE,
    Attached,
    Granted,
    Hello,
    Message,
    PauseRehearsals,
    Reclaim,
    Revoked,
    Suspend,
    decode,
    encode,
)
from understudy.submit import all_settings, option


class Channel:
    """The driver's end of the socketpair. Sending never raises: without a supervisor this process is about to die anyway."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._lock = threading.Lock()

    def say(self, message: Message) -> None:
        try:
            with self._lock:
                self._socket.sendall(encode(message))
        except OSError:
            return

    def listen(self, stage: Stage, rehearsals: Rehearsals) -> None:
        with self._socket.makefile("rb") as lines:
            while line := lines.readline(LONGEST_LINE):
                match decode(line):
                    case Granted(_, recorded):
                        stage.granted(recorded)
                    case Reclaim():
                        stage.reclaim()
                    case Revoked():
                        stage.revoked()
                    case PauseRehearsals(seconds):
                        rehearsals.rest(seconds)
                    case Suspend(patience):
                        stage.suspend(patience)
                    case other:
                        raise AssertionError(f"a supervisor does not say {other}")


def run(spec: DriverSpec, channel: Channel, alive: int, ending: Ending) -> Outcome:
    script = Path(spec.script)
    gate_client: GateClient
    budget = ReadBudget(spec.rows_per_hour, spec.bytes_per_hour)
    rehearsals = Rehearsals(spec.rehearse, spec.rounds, spec.every, spec.scratch, budget, channel.say)
    check = FenceCheck(ending.refuse)
    gate_client = GateClient(Path(spec.gate), script, rehearsals.held, check.writer)
    in_cluster = spec.lock_kind != "file"
    stage = Stage(gate_client, rehearsals, Path(spec.gate), check, channel.say, spec.executors, in_cluster=in_cluster)
    ending.of_stage(stage)

    def attached(gateway: Any) -> None:
        ending.attached(gateway)
        stage.attached(gateway.jvm)
        channel.say(Attached(_spark_version(), gateway.proc.pid))

    prepare(spec, alive, check, attached)
    install(stage, gate_client, spec.checkpoints, tuned=spec.tune)
    accumulators.install(lambda: rehearsals.playing)
    leadership.install(Leading(gate_client))
    make_importable(spec.submit)
    if master := option(spec.submit, "--master", "") or all_settings(spec.submit, os.environ).get("spark.master"):
        os.environ["MASTER"] = master  # as spark-submit does
    threading.Thread(target=channel.listen, args=(stage, rehearsals), name="supervisor", daemon=True).start()
    return _play(script, spec.arguments, stage.report_stale)


def _play(script: Path, arguments: list[str], failed: Callable[[BaseException], None]) -> Outcome:
    """Run the script as the interpreter would. ``failed`` gets what it raised."""
    sys.argv = [str(script), *arguments]
    try:
        run_as_main(script)
    except SystemExit as ended:
        match ended.code:
            case None:
                return Outcome(0)
            case int(code):
                code &= 0xFF  # what a parent sees of it
                return Outcome(code, "" if code == 0 else f"the script exited with code {code}")
            case text:
                sys.stderr.write(f"{text}\n")
                return Outcome(1, str(text))
    except (LeadershipLost, UnderstudyError) as refused:
        return Outcome.of(refused)
    except BaseException as error:  # noqa: BLE001 - reported as the interpreter would
        traceback.print_exc()
        failed(error)
        return Outcome.of(error)
    return Outcome(0)


def run_as_main(script: Path) -> None:
    """Run it in a module ``__main__`` that stays: threads that outlive its last line look there for what they pickle.

    This interpreter was started with ``-P``, so no directory is on the path before the script's own.
    """
    sys.path.insert(0, str(script.parent))
    module = ModuleType("__main__")
    made = {
        "__file__": str(script),
        "__builtins__": builtins,
        "__package__": None,
        "__cached__": None,
        "__annotations__": {},
    }
    loader = SourceFileLoader("__main__", str(script))
    vars(module).update(made, __loader__=loader)
    sys.modules["__main__"] = module
    exec(loader.source_to_code(loader.get_data(str(script)), str(script)), vars(module))  # noqa: S102 - what it is for


def _spark_version() -> str:
    import pyspark

    return pyspark.__version__


def main() -> None:
    die_with_parent()
    spec = DriverSpec.decode(os.environ.pop(SPEC_VARIABLE))
    if os.getppid() != spec.parent:
        sys.exit(LOST)  # the supervisor died before the line above took effect
    if spec.low_priority:  # inherited by the JVM; the supervisor lifts both
        if may_lower_priority():
            os.nice(LOW_PRIORITY)
        go_first(EXPENDABLE)
    descriptor, alive = (int(number) for number in os.environ.pop(CHANNEL_VARIABLE).split(","))
    channel = Channel(descriptor)
    ending = Ending(channel.say)
    ending.install()
    now = instant()
    channel.say(Hello(os.getpid(), now.boottime_ns, now.monotonic_ns, time_namespace()))
    os.environ[ALIVE_VARIABLE] = spec.alive
    try:
        outcome = run(spec, channel, alive, ending)
    except UnderstudyError as error:
        outcome = Outcome.of(error)
    ending.main_ended(outcome)
    sys.exit(outcome.code)
