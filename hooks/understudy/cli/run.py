"""``understudy run``: runs one replica of a job."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.options import takes_options
from understudy.config.tree import Config
from understudy.errors import ReplicaStopped, SettingsError
from understudy.submit import FLAGS, WITH_VALUE, parsed

if TYPE_CHECKING:
    from understudy.events import Log
    from understudy.ha.services import HighAvailabilityServices
    from understudy.supervisor.health import Health
    from understudy.supervisor.hosts import Host
    from understudy.supervisor.settings import RunSettings
    from understudy.supervisor.supervisor import Supervisor
    from understudy.supervisor.workload import AfterExit

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False, "max_content_width": 120}

#: Seconds that a leader's process stays after its handover in a pod. When it ends, the kubelet takes down containers, mounts and
#: network, on the processors on which its successor may be running its first batch.
_LINGERS = 3.0

#: Characters of a cluster id.
_LONGEST_ID = 40


def split(rest: list[str], command: str = "run") -> tuple[list[str], str, list[str]]:
    """Splits words of ``command`` into spark-submit options, the script, and the script's arguments.

    Raises:
        SettingsError: a word is none of them.
    """
    submit, words = split_options(rest, command)
    if not words:
        where = f"understudy {command}"
        raise SettingsError("no script is given", where=where, remedy="Add the path of a PySpark script")
    return submit, words[0], words[1:]


def split_options(rest: list[str], command: str = "run") -> tuple[list[str], list[str]]:
    """Splits words into spark-submit options and what follows them. Raises ``SettingsError`` for an option that is none."""
    submit: list[str] = []
    words = iter(rest)
    for name, value, written in parsed(words):
        word = written[0]
        if value is not None or word in FLAGS:
            submit += written
        elif word in WITH_VALUE:
            raise SettingsError("no value is given", where=word, remedy=f"Write {word} VALUE")
        elif name.partition("=")[0] == "--remote":
            raise SettingsError(
                "a Spark Connect session has its driver elsewhere, and there is nothing here to fail over",
                where="--remote",
                remedy="Give --master, and let the script make a classic session",
            )
        elif word.startswith("-"):
            raise SettingsError(
                "neither an option of understudy nor of spark-submit",
                where=word,
                remedy=f"Write: understudy {command} [options] [spark-submit options] job.py [arguments]; see understudy {command} --help",
            )
        else:
            return submit, [word, *words]
    return submit, []


def default_ha_dir() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "understudy"


def _derived_id(script: str) -> str:
    """The cluster id for ``script``. Raises ``SettingsError`` where a part of its name would be lost: two scripts whose names differ only there
    would be one job, and the second one never run.
    """
    stem = Path(script).stem.lower()
    derived = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in stem).strip("-")
    lost = [letter for letter in stem if letter.isalnum() and not letter.isascii()]
    if derived and not lost and len(derived) <= _LONGEST_ID:
        return derived
    raise SettingsError(
        f"no id can be made of the script's name {Path(script).name!r}: one has letters of ASCII and digits, {_LONGEST_ID} at most",
        where="--cluster-id",
        remedy="Give one, for example --cluster-id flights-prod",
    )


@takes_options
def run(
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SPARK-SUBMIT OPTIONS] JOB.PY [ARGUMENTS]",
            show_default=False,
            help="The script, as for spark-submit. None with --submitted.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Run one replica of a PySpark script. Start it two or three times: one leads, the others rehearse and wait.

    Options of understudy come first, then those of spark-submit, then the script and its arguments. Each of understudy's can be set in
    the environment, under its name: --ha-dir as UNDERSTUDY_HA_DIR. The command line wins.

    A job that has FINISHED is left alone, with exit code 0, until a start brings a new --run-id: then it runs once more, from the same
    checkpoints. A job that runs on a schedule needs an id for each time, such as a date.

    Exit codes: 0 the job FINISHED, or this replica was told to stop; 1 the job FAILED; 2 a setting is wrong; 3 Java, Spark or
    the fence is missing; 4 a document cannot be read; 5 another job, cluster or lock owns this; 6 the script is no streaming or
    batch job; 7 a permission is missing; 8 the server of the documents or the HA storage does not answer; 70 a part of this replica failed
    unexpectedly; 71 processes of a driver do not end. In a pod of a Kubernetes Job, 143 this replica was told to stop.
    """
    import asyncio

    from understudy.documents.directory import check_directory, nothing_left_of
    from understudy.environment import find_fence, find_java, spark_environment, spark_version
    from understudy.events import Log
    from understudy.submit import with_bracketed_hosts

    config = Config.of(options)
    submit, script, arguments = _words(rest or [], submitted=config.job.submitted)
    submit = with_bracketed_hosts(submit)
    _adopt(spark_environment())
    _refuse_cluster_mode(submit)
    settings = _resolved(config, Path(script), tuple(arguments), tuple(submit))
    listen = config.probes.listen
    if not listen and settings.on_kubernetes:
        listen = "[::]:8080"  # the pod's own network namespace; a NetworkPolicy says who may
    address = _address(listen) if listen else None
    os.environ["JAVA_HOME"] = str(find_java().home)
    fence = find_fence(spark_version())
    with nothing_left_of(settings.home):
        check_directory(settings.home)
        (settings.home / "log").mkdir(parents=True, exist_ok=True)
        log = Log({"job": settings.job, "pid": os.getpid()})
        code = asyncio.run(_replica(settings, address, fence, log))
    sys.exit(code)


def _words(rest: list[str], *, submitted: bool) -> tuple[list[str], str, list[str]]:
    """As ``split``; without a script where one was submitted. Raises ``SettingsError``."""
    if not submitted:
        return split(rest)
    submit, words = split_options(rest)
    if words:
        raise SettingsError(
            f"what was submitted is to run, and {words[0]}",
            where="--submitted",
            remedy="Leave one of them out; arguments are submitted with the script",
        )
    return submit, "", []


def _resolved(config: Config, script: Path, arguments: tuple[str, ...], submit: tuple[str, ...]) -> RunSettings:
    """Fills in what the script and this machine decide where no option does."""
    from understudy.config.timings import timings_from
    from understudy.services import registry
    from understudy.supervisor.settings import RunSettings

    job, election = config.job, config.election
    chosen = registry.choose(election.ha, election.lock)
    if job.submitted and not job.cluster_id:
        raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one that it was submitted for")
    cluster = job.cluster_id or _derived_id(str(script))
    return RunSettings(
        script=script,
        arguments=arguments,
        submit=submit,
        cluster=cluster,
        job=job.job_id or cluster,
        ha_dir=(election.ha_dir or default_ha_dir()).absolute(),
        timings=timings_from(election.profile, dict(_pair(each) for each in election.timing)),
        lock_kind=chosen.lock,
        ha=chosen.name,
        ha_address=election.ha_address,
        namespace=election.namespace,
        run_id=job.run_id,
        submitted=job.submitted,
        storage=config.storage,
        rehearsal=config.rehearsal,
        standby=config.standby,
        takeover=config.takeover,
        restart=config.restart,
        spark=config.spark,
    )


async def _replica(settings: RunSettings, address: tuple[str, int] | None, fence: Path, log: Log) -> int:
    """Runs a replica, with probes at ``address`` if there is one, and returns its exit code."""
    from understudy.supervisor.backends import connect
    from understudy.supervisor.submitted import Submitted

    services, host = await connect(settings, log)
    if not settings.submitted:
        return await _supervised(settings, services, host, address, fence, log)
    waiting = Submitted.of(settings, services, host, log)
    async with _probes(waiting.health, services, host, address):
        found = await waiting.fetched()
    if found is None:
        return _told_to_stop(host.after_exit)
    try:
        return await _supervised(found.settings, services, host, address, fence, log)
    finally:
        found.directory.remove()


async def _supervised(
    settings: RunSettings,
    services: HighAvailabilityServices,
    host: Host,
    address: tuple[str, int] | None,
    fence: Path,
    log: Log,
) -> int:
    from understudy.supervisor.election import endpoint_address
    from understudy.supervisor.supervisor import Supervisor

    supervisor = Supervisor(settings, services, host, fence, log)
    async with _probes(supervisor.health, services, host, address) as port:
        if address is not None:
            supervisor.serve_endpoint(endpoint_address(host, address[0], port))
        return await _run(supervisor, host.after_exit)


@asynccontextmanager
async def _probes(
    health: Health, services: HighAvailabilityServices, host: Host, address: tuple[str, int] | None
) -> AsyncIterator[int]:
    """Serves probes at ``address``, if there is one; the port. Where they cannot be served, ``services`` and ``host`` are closed."""
    if address is None:
        yield 0
        return
    from understudy.supervisor.probes import Probes

    probes = Probes(health, services.requests)
    try:
        port = await probes.start(*address)
    except BaseException:
        await host.close()
        await services.close()
        raise
    try:
        yield port
    finally:
        await probes.stop()


def _adopt(environ: dict[str, str]) -> None:
    """Takes over the environment that conf/spark-env.sh makes: Java, Spark's directories and the driver's environment come from it."""
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


def _refuse_cluster_mode(submit: list[str]) -> None:
    from understudy.submit import deploy_mode

    mode, where = deploy_mode(submit, os.environ)
    if mode != "client":
        raise SettingsError(
            f"the deploy mode is {mode}, but a replica *is* the driver, where it was started",
            where=where,
            remedy="Remove it, or set it to client: in a cluster, run the replicas in pods",
        )


async def _run(supervisor: Supervisor, after: AfterExit) -> int:
    """Runs the replica to its end. In a pod that is not the end of its process in three cases.

    A replica of a job that has FINISHED stays ready and idle until it is told to stop, where the kubelet would start it again and again.
    A leader that was told to stop ends a little after its handover. In a Job's pod no replica that was told to stop ends with 0: its Job
    would take the run for ended, and make no pod in its place. Raises ``ReplicaStopped`` there, and what ended the replica.
    """
    import asyncio

    from understudy.supervisor.workload import AfterExit

    code = await supervisor.run()
    if after is AfterExit.NOTHING:
        return code
    if supervisor.successor is not None:
        await asyncio.sleep(_LINGERS)
    elif code == 0 and after is AfterExit.RESTART:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.told_to_stop.set)
        await supervisor.told_to_stop.wait()
    return _told_to_stop(after) if code == 0 and supervisor.told_to_stop.is_set() else code


def _told_to_stop(after: AfterExit) -> int:
    """The exit code. Raises ``ReplicaStopped`` in a Job's pod."""
    from understudy.supervisor.workload import AfterExit

    if after is AfterExit.COUNTED:
        raise ReplicaStopped(
            "this replica was told to stop", remedy="Its Job makes a pod in its place, unless the run has ended"
        )
    return 0


def _address(text: str) -> tuple[str, int]:
    from understudy.addresses import split as split_address

    try:
        return split_address(text)
    except ValueError:
        raise SettingsError(
            f"{text!r} is not host:port", where="--listen", remedy="Write --listen 127.0.0.1:8080, or [::]:8080 for all"
        ) from None


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise SettingsError(f"{item!r} is not name=value", where="--timing", remedy="Write --timing lease=20")
    return name, value
