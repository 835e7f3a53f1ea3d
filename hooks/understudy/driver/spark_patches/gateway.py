"""Launching the JVM and initializing its context: every JVM that PySpark starts here becomes a fenced member of the replica."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from understudy.driver import workers
from understudy.driver.children import only_in
from understudy.driver.fence_check import FenceCheck
from understudy.driver.java import java_class
from understudy.driver.jvm import (
    attach,
    broadcast_in_small_blocks,
    launched,
    local_disk_without_processes,
    log_as_configured,
    popen_class,
    refuse_other_jvms,
)
from understudy.driver.spare_workers import SpareWorkers
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import CONTEXT
from understudy.driver.startup_output import StartupOutput
from understudy.protocol.driver_spec import DriverSpec


def replace_gateway(
    patches: PatchRegistry, spec: DriverSpec, alive: int, check: FenceCheck, attached: Callable[[Any], None]
) -> None:
    """``alive`` is the descriptor of the proof of life.

    ``attached`` is called with the gateway after the gate is mapped there, before the script gets its session. Arguments and
    environment of a JVM are put together when it is started, so changes that the script has made to ``os.environ`` count. The
    jar goes onto the class path through ``SPARK_DIST_CLASSPATH``, which no setting of the user's can displace; conf/spark-env.sh,
    which could, has been read before (``spark_environment``).

    Raises ``EnvironmentProblem`` where the environment asks for another JVM or for Spark Connect.
    """
    refuse_other_jvms()
    workers.name_python(spec.submit, os.environ)
    spares = SpareWorkers(alive)
    driver = os.getpid()
    outputs: list[StartupOutput] = []  # of the last start

    def launches(stock: Callable[..., Any]) -> Callable[..., Any]:
        def launch(conf: Any = None, popen_kwargs: Any = None) -> Any:
            only_in(driver)
            gateway = launched(spec, outputs, lambda: stock(conf, popen_kwargs))
            attach(gateway, spec)
            log_as_configured(gateway.jvm)
            check.attached(gateway)
            attached(gateway)
            return gateway

        return check.refusing(launch)

    def initializes(stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def initialize_context(self: Any, conf: Any) -> Any:
            check.install(conf)
            workers.install(self._jvm, conf)
            broadcast_in_small_blocks(conf)
            local_disk_without_processes(self._jvm, conf)
            made = stock(self, conf)
            java_class(self._jvm, "dev.understudy.hadoop.PropertySources").forget(made.hadoopConfiguration())
            if not made.sc().isLocal() and not made.master().startswith("k8s://"):  # there the image has it
                made.addJar(spec.fence_jar)  # tasks write state and sinks through it
            return made

        return check.refusing(initialize_context)

    def with_spares(stock: Callable[..., None]) -> Callable[..., None]:
        def do_init(self: Any, *arguments: Any, **named: Any) -> None:
            stock(self, *arguments, **named)
            if (
                workers.executes_here(self._conf) and spec.rehearsal.mode != "off"
            ):  # the program is on this machine alone
                self.pythonExec = spares.program(self.pythonExec, {*os.environ, *self.environment})

        return do_init

    patches.replace("pyspark.java_gateway:Popen", lambda _: popen_class(alive, spec.fence_jar, spares, outputs))
    patches.replace("pyspark.core.context:launch_gateway", launches)
    patches.replace(f"{CONTEXT}._initialize_context", initializes)
    patches.replace(f"{CONTEXT}._do_init", with_spares)
