"""``understudy run``: one replica of a job."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.addresses import split as split_address
from understudy.errors import SettingsError
from understudy.submit import deploy_mode

if TYPE_CHECKING:
    from understudy.supervisor.supervisor import Supervisor

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}

#: Seconds for which a leader's process outlives its handover in a pod. Its end is the start of the pod's: containers, mounts and
#: network are taken down on the processors on which its successor may be running its first batch.
_LINGERS = 3.0

#: Options of spark-submit that take a value and make sense in client mode.
_SUBMIT_WITH_VALUE = frozenset(
    "--master --name --conf -c --jars --packages --exclude-packages --repositories --py-files --files --archives"
    " --properties-file --driver-memory --driver-java-options --driver-library-path --driver-class-path --executor-memory"
    " --driver-cores --total-executor-cores --executor-cores --num-executors --queue --principal --keytab --proxy-user"
    " --deploy-mode".split()
)
_SUBMIT_FLAGS = frozenset(("--verbose", "-v", "--load-spark-defaults"))


def split(rest: list[str]) -> tuple[list[str], str, list[str]]:
    """spark-submit options, the script, and the script's arguments. Raises ``SettingsError`` for what is none of them."""
    submit: list[str] = []
    words = iter(rest)
    for word in words:
        name, _, value = word.partition("=")
        if word in _SUBMIT_FLAGS or (name in _SUBMIT_WITH_VALUE and value):
            submit.append(word)
        elif word in _SUBMIT_WITH_VALUE:
            following = next(words, None)
            if following is None:
                raise SettingsError("no value is given", where=word, remedy=f"Write {word} VALUE")
            submit += [word, following]
        elif name == "--remote":
            raise SettingsError(
                "a Spark Connect session has its driver elsewhere, and there is nothing here to fail over",
                where=name,
                remedy="Give --master, and let the script make a classic session",
            )
        elif word.startswith("-"):
            raise SettingsError(
                "neither an option of understudy nor of spark-submit",
                where=word,
                remedy="Write: understudy run [options] [spark-submit options] job.py [arguments]; see understudy run --help",
            )
        else:
            return submit, word, list(words)
    raise SettingsError("no script is given", where="understudy run", remedy="Add the path of a PySpark script")


def default_ha_dir() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "understudy"


def _derived_id(script: str) -> str:
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(script).stem.lower())
    return letters.strip("-")[:40].strip("-") or "job"


def run(
    rest: Annotated[
        list[str],
        typer.Argument(
            metavar="[SPARK-SUBMIT OPTIONS] JOB.PY [ARGUMENTS]",
            show_default=False,
            help="The script, as for spark-submit.",
        ),
    ],
    cluster_id: Annotated[
        str, typer.Option(help="Replicas with one cluster id elect one leader.", show_default="the script's name")
    ] = "",
    job_id: Annotated[
        str, typer.Option(help="What this cluster runs; another job id is refused.", show_default="the cluster id")
    ] = "",
    run_id: Annotated[
        str,
        typer.Option(
            help="Which run of the job this is: a run that has ended never runs again, a new id begins a new one.",
            show_default="the run under way",
        ),
    ] = "",
    ha_dir: Annotated[
        Path | None,
        typer.Option(help="Where documents and proofs of life are kept.", show_default="~/.local/state/understudy"),
    ] = None,
    lock: Annotated[
        str,
        typer.Option(
            help="file (one machine); lease, configmap or multi (both) in a cluster.",
            show_default="lease in a pod, else file",
        ),
    ] = "",
    namespace: Annotated[
        str, typer.Option(help="Where the cluster id's objects are.", show_default="the pod's own")
    ] = "",
    checkpoints: Annotated[
        str,
        typer.Option(
            help="Checkpoints of queries that name no location, by query name.",
            show_default="below --ha-dir, off a cluster",
        ),
    ] = "",
    scratch: Annotated[
        str,
        typer.Option(help="Where rehearsals write, if executors run elsewhere.", show_default="this machine's disk"),
    ] = "",
    standby_executors: Annotated[
        int, typer.Option(help="Executor pods a standby keeps warm, with --master k8s://….")
    ] = 1,
    listen: Annotated[
        str,
        typer.Option(
            help="Serve /livez, /readyz and /metrics at host:port.",
            show_default="nowhere; in a pod [::]:8080, every address of IPv4 and IPv6",
        ),
    ] = "",
    profile: Annotated[str, typer.Option(help="Lease timing: default (15 s) or fast (5 s).")] = "default",
    timing: Annotated[
        list[str] | None,
        typer.Option(
            help="One timing in seconds, as name=value: lease, renew, retry, request, kill, write_timeout, grace."
        ),
    ] = None,
    rehearse: Annotated[str, typer.Option(help="What standbys rehearse on: live, synthetic, plan or off.")] = "live",
    rehearse_rounds: Annotated[int, typer.Option(help="Rounds a standby plays before the schedule begins.")] = 32,
    rehearse_every: Annotated[float, typer.Option(help="Seconds between scheduled rehearsals.")] = 30.0,
    standby_max_age: Annotated[
        float,
        typer.Option(help="Seconds after which a standby's script runs again from the top, one standby at a time."),
    ] = 3600.0,
    rehearse_rows: Annotated[
        int, typer.Option(help="Rows of its sources that a standby's rehearsals read per hour; more, and they wait.")
    ] = 10_000_000,
    rehearse_bytes: Annotated[
        int, typer.Option(help="Bytes of files that a standby's rehearsals read per hour; more, and they wait.")
    ] = 2_000_000_000,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="RocksDB with a changelog and 8 shuffle partitions for new checkpoints, where nothing else is set.",
        ),
    ] = False,
    stop_patience: Annotated[
        float,
        typer.Option(
            help="Seconds a stopping leader gives a running foreachBatch or batch writer to finish, if that may be enough."
        ),
    ] = 0.3,
    takeover_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds from the grant in which a standby's queries have to start; then its driver counts as failed."
        ),
    ] = 120.0,
    restart_attempts: Annotated[int, typer.Option(help="Failures within the window before the job has FAILED.")] = 10,
    restart_delay: Annotated[
        float, typer.Option(help="Seconds before a driver is started again; doubles with each failure, up to a minute.")
    ] = 1.0,
    restart_window: Annotated[float, typer.Option(help="Seconds after which a failure is forgotten.")] = 600.0,
) -> None:
    """Run one replica of a PySpark script. Start it two or three times: one leads, the others rehearse and wait.

    Options of understudy come first, then those of spark-submit, then the script and its arguments.

    A job that has FINISHED is left alone and 0 is the exit code, until a start brings a new --run-id: then it runs once more, from
    the same checkpoints. One that is run on a schedule needs an id for each time, such as a date.

    Exit codes: 0 the job FINISHED, or this replica was told to stop; 1 the job FAILED; 2 a setting is wrong; 3 Java, Spark or
    the fence is missing; 4 a document cannot be read; 5 another job, cluster or lock owns this; 6 the script is no streaming or
    batch job; 70 a part of this replica failed unexpectedly.
    """
    from understudy.config.timings import timings_from
    from understudy.documents.directory import check_directory
    from understudy.environment import find_fence, find_java, spark_environment, spark_version
    from understudy.events import Log
    from understudy.submit import with_bracketed_hosts
    from understudy.supervisor.backends import connect
    from understudy.supervisor.settings import RunSettings
    from understudy.supervisor.supervisor import Supervisor

    submit, script, arguments = split(rest)
    submit = with_bracketed_hosts(submit)
    _adopt(spark_environment())
    _refuse_cluster_mode(submit)
    cluster = cluster_id or _derived_id(script)
    overrides = dict(_pair(item) for item in timing or [])
    settings = RunSettings(
        script=Path(script),
        arguments=tuple(arguments),
        submit=tuple(submit),
        cluster=cluster,
        job=job_id or cluster,
        ha_dir=(ha_dir or default_ha_dir()).absolute(),
        timings=timings_from(profile, overrides),
        rehearse=rehearse,
        rehearse_rounds=rehearse_rounds,
        rehearse_every=rehearse_every,
        rehearse_rows=rehearse_rows,
        rehearse_bytes=rehearse_bytes,
        stop_patience=stop_patience,
        takeover_timeout=takeover_timeout,
        restart_attempts=restart_attempts,
        restart_delay=restart_delay,
        restart_window=restart_window,
        lock_kind=lock or ("lease" if os.environ.get("KUBERNETES_SERVICE_HOST") else "file"),
        namespace=namespace,
        checkpoints=checkpoints,
        scratch=scratch,
        standby_executors=standby_executors,
        standby_max_age=standby_max_age,
        tune=tune,
        run_id=run_id,
    )
    if not listen and settings.in_cluster:
        listen = "[::]:8080"  # the pod's own network namespace; a NetworkPolicy says who may
    address = _address(listen) if listen else None
    os.environ["JAVA_HOME"] = str(find_java().home)
    fence = find_fence(spark_version())
    check_directory(settings.home)
    (settings.home / "log").mkdir(parents=True, exist_ok=True)
    log = Log({"job": settings.job, "pid": os.getpid()})

    async def replica() -> int:
        services, host = await connect(settings, log)
        supervisor = Supervisor(settings, services, host, fence, log)
        if address is None:
            return await _run(supervisor, always_restarted=host.always_restarted)
        from understudy.supervisor.probes import Probes

        probes = Probes(supervisor.health, services.requests)
        await probes.start(*address)
        try:
            return await _run(supervisor, always_restarted=host.always_restarted)
        finally:
            await probes.stop()

    sys.exit(asyncio.run(replica()))


def _adopt(environ: dict[str, str]) -> None:
    """Go on as what conf/spark-env.sh makes of us: Java, Spark's directories and the driver's own environment are looked for there."""
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)


def _refuse_cluster_mode(submit: list[str]) -> None:
    mode, where = deploy_mode(submit, os.environ)
    if mode != "client":
        raise SettingsError(
            f"the deploy mode is {mode}, but a replica *is* the driver, where it was started",
            where=where,
            remedy="Remove it, or say client: in a cluster, run the replicas in pods",
        )


async def _run(supervisor: Supervisor, *, always_restarted: bool) -> int:
    """In a pod, a job that has FINISHED leaves its replicas ready and idle, for they would be begun again, and again; and a leader
    that was told to stop ends a little after it has handed over.
    """
    code = await supervisor.run()
    if not always_restarted:
        return code
    if supervisor.successor is not None:
        await asyncio.sleep(_LINGERS)
    elif code == 0:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.told_to_stop.set)
        await supervisor.told_to_stop.wait()
    return code


def _address(text: str) -> tuple[str, int]:
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
