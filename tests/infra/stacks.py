"""Stacks for Hypothesis: keys of Pulumi.yaml that belong together, over everything that the rules allow."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from infra.manifests.base import Manifest
from infra.manifests.everything import kept_objects, passing_objects
from infra.manifests.object_store import endpoint_of
from infra.settings import LOCKS, MODES, PULLS, STATES, WORKLOADS, Settings

#: A stack has many keys, and drawing them all takes a while.
patient = settings(max_examples=30)


def everything(stack: Settings) -> list[Manifest]:
    return [*kept_objects(stack), *passing_objects(stack, endpoint_of(stack))]


_MIB = 1 << 20
#: What YAML may take for something else is among the texts that stand in a manifest.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12) | st.sampled_from(
    ["y", "n", "off", "1e3", "0o17", "1_000", "12:30", "~", "null", "=", "2026-11-22", "{}", "- a", "# b", "a: b"]
)


def labels(longest: int = 63) -> st.SearchStrategy[str]:
    """As Kubernetes means a DNS label. ``lock`` and ``replicas`` are for HA documents."""
    found = st.from_regex(rf"[a-z0-9]([-a-z0-9]{{0,{longest - 2}}}[a-z0-9])?", fullmatch=True)
    return found.filter(lambda name: name not in {"lock", "replicas"})


VARIABLES = st.sampled_from(["A", "LOG_LEVEL", "_x", "API_KEY", "TOKEN", "JAVA_OPTS"])


@st.composite
def stacks(draw: st.DrawFn, *, runs: bool = False) -> dict[str, Any]:
    """What no rule refuses. ``runs``: without ``purge``, which leaves out what runs."""
    mode = draw(st.sampled_from(MODES))
    workload = draw(st.sampled_from([each for each in WORKLOADS if mode != "native" or each != "StatefulSet"]))
    volume, ends, production = workload == "StatefulSet", workload in {"Job", "CronJob"}, draw(st.booleans())
    executors = draw(st.integers(1, 9))
    ha = draw(_ha(volume=volume))
    in_image = draw(st.booleans())
    variables = draw(st.dictionaries(VARIABLES, TEXTS))
    secret = draw(st.dictionaries(VARIABLES, st.sampled_from(["flights-api/key", "others/some.KEY_2"])))
    purge, policies = not runs and draw(st.booleans()), draw(st.booleans())
    return {
        "clusterId": draw(labels(40)),
        "jobId": draw(st.just("") | labels(40)),
        "namespace": draw(labels()),
        "createNamespace": draw(st.booleans()),
        "context": draw(st.sampled_from(["", "production"])),
        "image": draw(st.sampled_from(["flights:1.0.0", "host:5000/a/flights:2", f"flights@sha256:{'0' * 64}"])),
        "imagePullPolicy": draw(st.sampled_from(PULLS)),
        "imagePullSecrets": draw(st.lists(labels(), max_size=2, unique=True)),
        "script": "/app/flights.py" if in_image else "",
        "scriptFile": "" if in_image else draw(st.sampled_from(["examples/flights.py", "examples/heartbeat.py"])),
        "arguments": draw(st.lists(TEXTS, max_size=3)),
        "environment": {name: value for name, value in variables.items() if name not in secret},
        "secretEnvironment": secret,
        "sparkSettings": draw(st.dictionaries(st.sampled_from(["spark.a", "spark.b.c"]), TEXTS)),
        "replicas": 1 if volume else draw(st.integers(2 if production else 1, 5)),
        "state": "" if volume or ends else draw(st.sampled_from(STATES)),
        **(draw(_runs(scheduled=workload == "CronJob")) if ends else {}),
        **draw(_endings()),
        "profile": draw(st.sampled_from(["default", "fast"])),
        "timings": draw(st.sampled_from([{}, {"lease": 30}, {"retry": 0.5, "kill": 0.2}])),
        **ha,
        "rehearse": draw(st.sampled_from(["live", "synthetic", "plan", "off"])),
        "mode": mode,
        **draw(st.sampled_from([{}, {"haStorage": True}, {"haStorage": True, "deleteResultOnCommit": True}])),
        "cores": draw(st.integers(1, 8)),
        "master": draw(st.sampled_from(["spark://m:7077", "spark://m:1,n:2"])) if mode == "standalone" else "",
        "executors": executors,
        "executorCores": draw(st.integers(1, 4)),
        "standbyExecutors": draw(st.integers(0, executors)),
        "workload": workload,
        "storageClass": draw(st.sampled_from(["", "block"])),
        "cpu": draw(st.sampled_from(["250m", "1", "2.5"])),
        **draw(_memory()),
        "priorityClass": draw(st.sampled_from(["", "streaming"])),
        "nodeSelector": draw(st.dictionaries(st.sampled_from(["disk", "example.com/pool"]), st.just("1e3"))),
        "spread": draw(st.sampled_from(["preferred", "required"])),
        **draw(_bucket(production=production)),
        "production": production,
        "retain": True if production and not purge else draw(st.booleans()),
        "purge": purge,
        "networkPolicies": policies,
        "egress": draw(st.lists(st.sampled_from(["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"]), unique=True))
        if policies
        else [],
        **draw(_monitoring()),
        "monitoringChart": draw(st.booleans()),
        "flowSchema": not volume and "haAddress" not in ha and draw(st.booleans()),
    }


@st.composite
def _ha(draw: st.DrawFn, *, volume: bool) -> dict[str, Any]:
    """In the API server with any lock, or in an ensemble or on a volume with its own."""
    if volume:
        return {}
    if draw(st.booleans()):
        return {"lock": draw(st.sampled_from(LOCKS))}
    servers = draw(st.sampled_from(["zk:2181", "zk-0.zk.data.svc:2181,zk-1.zk.data.svc:2182", "[2001:db8::7]:2181"]))
    files = draw(st.sampled_from(["", "?digest=/etc/understudy/ha/user&ca=/etc/understudy/ha/ca.pem"]))
    secret = {"haSecret": "flights-zookeeper"} if files else {}
    return {"ha": "zookeeper", "haAddress": f"{servers}/understudy{files}", **secret}


@st.composite
def _runs(draw: st.DrawFn, *, scheduled: bool) -> dict[str, Any]:
    schedule = draw(st.sampled_from(["*/5 * * * mon-fri", "@hourly", "none"])) if scheduled else ""
    zone = draw(st.sampled_from(["", "Europe/Berlin"])) if scheduled and schedule != "none" else ""
    return {"schedule": schedule, "timeZone": zone, "activeDeadline": draw(st.sampled_from([0, 3600]))}


@st.composite
def _endings(draw: st.DrawFn) -> dict[str, Any]:
    """The least grace that is enough, or more."""
    patience = draw(st.integers(1, 600))
    attempts, window = draw(st.integers(0, 99)), draw(st.integers(1, 86_400))
    delay = draw(st.sampled_from(["1", "0.25", "60"]))
    return {
        "restartStrategy": draw(st.sampled_from(["exponential", "fixed-delay"])),
        "restartAttempts": attempts,
        "restartWindow": window,
        "restartDelay": delay,
        "stopPatience": str(patience),
        "takeoverTimeout": draw(st.integers(1, 3600)),
        "terminationGracePeriod": max(10, 2 * patience + 8) + draw(st.integers(0, 60)),
        "rehearseRounds": draw(st.integers(1, 99)),
        "rehearseEvery": draw(st.integers(1, 600)),
        "rehearseRows": draw(st.integers(1, 10**9)),
        "rehearseBytes": draw(st.integers(1, 10**12)),
        "standbyMaxAge": draw(st.integers(1, 10**6)),
        "tune": draw(st.booleans()),
    }


@st.composite
def _monitoring(draw: st.DrawFn) -> dict[str, Any]:
    """Who has a monitor lets Prometheus in."""
    monitor = draw(st.booleans())
    return {"podMonitor": monitor, "metricsFrom": draw(labels() if monitor else st.just("") | labels())}


@st.composite
def _memory(draw: st.DrawFn) -> dict[str, str]:
    """The least that is enough, or more."""
    heap = draw(st.integers(64, 8192))
    needed = int((heap * _MIB) * 1.1) + (400 << 20)
    return {"driverMemory": f"{heap}m", "memory": f"{-(-needed // _MIB) + draw(st.integers(0, 2048))}Mi"}


@st.composite
def _bucket(draw: st.DrawFn, *, production: bool) -> dict[str, Any]:
    kind = draw(st.sampled_from(["existing", "aws", "s3", *([] if production else ["incluster"])]))
    endpoints = {"existing": ["", "http://s3.example.com:7070/"], "s3": ["https://s3.example.com"]}
    endpoint = draw(st.sampled_from(endpoints.get(kind, [""])))
    needs_keys = kind == "incluster" or bool(endpoint)
    credentials: list[dict[str, Any]] = [
        {"bucketSecret": "flights-bucket"},
        {"bucketAccessKey": "AKIA-the-access-key", "bucketSecretKey": "the-secret-key"},
        *([] if needs_keys else [{}, {"workloadIdentity": {"example.com/role": "1e3"}}]),
    ]
    return {
        "bucketKind": kind,
        "bucket": draw(st.sampled_from(["flights", "ha.example-1"])),
        "bucketPrefix": draw(st.sampled_from(["", "/a/b/"])),
        "bucketEndpoint": endpoint,
        **draw(st.sampled_from(credentials)),
    }
