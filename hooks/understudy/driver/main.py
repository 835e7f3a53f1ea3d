"""The driver's process: PySpark with understudy's patches, then the user's script as ``__main__``."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy import leadership
from understudy.clock import instant
from understudy.driver import uncaught
from understudy.driver.assembly import assemble
from understudy.driver.channel import Channel
from understudy.driver.children import Children
from understudy.driver.driver_leadership import DriverLeadership
from understudy.driver.ending import LOST, Ending, Outcome
from understudy.driver.py_files import make_importable
from understudy.driver.spark_patches.gateway import replace_gateway
from understudy.driver.spark_patches.installation import install
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import PATCHES
from understudy.errors import LeadershipLost, UnderstudyError
from understudy.processes import die_with_parent, may_lower_priority, raise_oom_score, time_namespace
from understudy.protocol.driver_spec import (
    ALIVE_VARIABLE,
    CHANNEL_VARIABLE,
    EXPENDABLE,
    LOW_PRIORITY,
    SPEC_VARIABLE,
    DriverSpec,
)
from understudy.protocol.messages import Attached, Hello
from understudy.submit import started_with


def run(spec: DriverSpec, channel: Channel, alive: int, ending: Ending, patches: PatchRegistry) -> Outcome:
    """Patch PySpark, connect the supervisor to the driver's parts, and run the script to the end of its main thread."""
    script = Path(spec.script)
    driver = assemble(spec, channel.send, ending.end_with)
    ending.watch(driver.registry, driver.gate_client, driver.fence, driver.checkpoints)

    def attached(gateway: Any) -> None:
        ending.attached(gateway)
        driver.fence.attached(gateway.jvm)
        channel.send(Attached(_spark_version(), gateway.proc.pid))

    replace_gateway(patches, spec, alive, driver.fence_check, attached)
    install(patches, driver, spec)
    leadership.install(DriverLeadership(driver.gate_client))
    Children(ending.refused_in_child, channel.send).listen(os.environ)
    make_importable(spec.submit, os.environ)
    if master := started_with(spec.submit, os.environ, "--master", "spark.master"):
        os.environ["MASTER"] = master  # as spark-submit does
    threading.Thread(target=channel.listen, args=(driver,), name="supervisor", daemon=True).start()
    return _run_script(script, spec.arguments, driver.stale_snapshot.report_stale)


def _run_script(script: Path, arguments: list[str], failed: Callable[[BaseException], None]) -> Outcome:
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
        uncaught.report(error)
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
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # as below spark-submit, whose JVM takes it, where a shell ignores it
    spec = DriverSpec.decode(os.environ.pop(SPEC_VARIABLE))
    if os.getppid() != spec.parent:
        sys.exit(LOST)  # the supervisor died before the line above took effect
    if spec.low_priority:  # inherited by the JVM; the supervisor lifts both
        if may_lower_priority():
            os.nice(LOW_PRIORITY)
        raise_oom_score(EXPENDABLE)
    descriptor, alive = (int(number) for number in os.environ.pop(CHANNEL_VARIABLE).split(","))
    channel = Channel(descriptor)
    patches = PatchRegistry(PATCHES)
    ending = Ending(channel.send, patches)
    ending.install()
    now = instant()
    channel.send(Hello(os.getpid(), now.boottime_ns, now.monotonic_ns, time_namespace()))
    os.environ[ALIVE_VARIABLE] = spec.alive
    try:
        outcome = run(spec, channel, alive, ending, patches)
    except UnderstudyError as error:
        outcome = Outcome.of(error)
    ending.main_ended(outcome)
    sys.exit(outcome.code)
